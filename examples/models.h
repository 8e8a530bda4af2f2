// SPDX-License-Identifier: Apache-2.0
//
// The models of the examples and benchmarks.
#ifndef MIRRORFLOW_EXAMPLES_MODELS_H_
#define MIRRORFLOW_EXAMPLES_MODELS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/graph/scope.h"

namespace mirrorflow {

// A classifier of images.
struct Classifier {
  Output images;  // placeholder: [-1, height, width, channels], or [-1, 784] for mlp
  Output labels;  // placeholder: [-1], int32
  Output loss;    // to be minimised
  // Those of inference.
  Output logits;  // [-1, classes]
  Output test_loss;
  Output accuracy;
};

// Of Fashion-MNIST's images, [28, 28, 1], and its ten classes.
// mlp: 784-512-512-10 with ReLU.
// cnn: convolution 3×3 32, max-pool, convolution 3×3 64, max-pool, dense 128, dense 10.
// resnet: ResNet-20 of section 4.2 of He et al., "Deep residual learning for image recognition",
//         2015 (which has three channels and 32×32 pixels): 269,434 parameters.
// InvalidArgument for another name; errors of building stick to the scope.
absl::StatusOr<Classifier> BuildClassifier(const Scope& scope, absl::string_view model);

struct ResNet50Config {
  std::vector<int64_t> blocks = {3, 4, 6, 3};  // of each stage
  int64_t width = 64;    // of the first stage; it doubles from one to the next
  int64_t pixels = 224;  // of an image's side
  int64_t classes = 1000;
};

// ResNet-50 of section 4.1 of the same paper, of images [pixels, pixels, 3]: 25,557,032 parameters.
// The stride of a stage is in its 3×3 convolution, where most programs have it, and not before.
// Errors of building stick to the scope.
Classifier BuildResNet50(const Scope& scope, const ResNet50Config& config = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_EXAMPLES_MODELS_H_
