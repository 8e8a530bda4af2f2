// SPDX-License-Identifier: Apache-2.0
//
// The Fashion-MNIST dataset (Xiao, Rasul and Vollgraf, 2017): 70,000 greyscale images of clothing,
// 28 × 28 pixels, in ten classes. The Debian package dataset-fashion-mnist installs the files.
#ifndef MIRRORFLOW_TRAIN_DATA_FASHION_MNIST_H_
#define MIRRORFLOW_TRAIN_DATA_FASHION_MNIST_H_

#include <string>

#include "absl/status/statusor.h"
#include "train/data/dataset.h"

namespace mirrorflow {

enum class Split { kTrain, kTest };

struct FashionMnist {
  static constexpr int kImageSize = 28;
  static constexpr int kNumClasses = 10;

  struct Options {
    Split split = Split::kTrain;
    // The directory with the four files, such as train-images-idx3-ubyte.gz. If empty,
    // $FASHION_MNIST_DIR or, if that is not set, the Debian package's directory.
    std::string data_dir;
    // Whether an image has the shape [28,28,1], for convolutions, instead of [784].
    bool shape_images = false;
  };

  // Returns a dataset of rows {image, label}: a float image scaled to [0, 1], and an int32 label
  // from 0 to 9. The files can be gzip-compressed. Returns NotFound if they do not exist, and
  // DataLoss if they are damaged.
  static absl::StatusOr<Dataset> Open(const Options& options);
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_FASHION_MNIST_H_
