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
    // The directory that holds the files. If empty, $FASHION_MNIST_DIR or, if that is not set, the
    // Debian package's directory.
    std::string data_dir;
    // Whether images have the shape [N,28,28,1], for convolutions, instead of [N,784].
    bool shape_images = false;
  };

  // Returns a dataset of (images, labels): float images scaled to [0, 1], and int32 labels from 0
  // to 9. The files can be gzip-compressed.
  static absl::StatusOr<Dataset> Open(const Options& options);
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_FASHION_MNIST_H_
