// SPDX-License-Identifier: Apache-2.0
//
// Image classifiers that programs, benchmarks and tests train.
#ifndef MIRRORFLOW_TOOLS_MODELS_CLASSIFIERS_H_
#define MIRRORFLOW_TOOLS_MODELS_CLASSIFIERS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/graph/scope.h"

namespace mirrorflow {

// The graph of an image classifier.
struct Classifier {
  Output images;  // placeholder: [-1, height, width, channels], or [-1, 784] for mlp
  Output labels;  // placeholder: [-1], int32
  Output loss;    // the value to minimise
  // For inference.
  Output logits;  // [-1, classes]
  Output test_loss;
  Output accuracy;
};

// Builds a classifier of Fashion-MNIST images, [28, 28, 1], with ten classes. `model` is one of
//   mlp     784-512-512-10 with ReLU
//   cnn     convolution 3×3 32, max-pool, convolution 3×3 64, max-pool, dense 128, dense 10
//   resnet  ResNet-20 of section 4.2 of He et al., "Deep residual learning for image recognition",
//           2015 (whose images have three channels and 32×32 pixels): 269,434 parameters
// Returns InvalidArgument for another name; other errors are recorded in the scope.
absl::StatusOr<Classifier> BuildClassifier(const Scope& scope, absl::string_view model);

struct ResNet50Config {
  std::vector<int64_t> blocks = {3, 4, 6, 3};  // in each stage
  int64_t width = 64;                          // width of the first stage; doubles with each stage
  int64_t pixels = 224;                        // side length of an image
  int64_t classes = 1000;
};

// Builds the ResNet-50 of section 4.1 of the same paper for images [pixels, pixels, 3]: 25,557,032
// parameters. As in most implementations, the stride of a stage is on its 3×3 convolution, not on
// the 1×1 convolution before it. Errors are recorded in the scope.
Classifier BuildResNet50(const Scope& scope, const ResNet50Config& config = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_MODELS_CLASSIFIERS_H_
