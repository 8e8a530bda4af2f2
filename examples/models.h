// SPDX-License-Identifier: Apache-2.0
//
// The models of the examples and benchmarks.
#ifndef MIRRORFLOW_EXAMPLES_MODELS_H_
#define MIRRORFLOW_EXAMPLES_MODELS_H_

#include <string>

#include "absl/status/statusor.h"
#include "framework/graph/scope.h"

namespace mirrorflow {

// A classifier of Fashion-MNIST images.
struct Classifier {
  Output images;  // placeholder: [-1, 784] for mlp, else [-1, 28, 28, 1]
  Output labels;  // placeholder: [-1], int32
  Output loss;    // to be minimised
  // Those of inference.
  Output logits;  // [-1, 10]
  Output test_loss;
  Output accuracy;
};

// mlp: 784-512-512-10 with ReLU.
// cnn: convolution 3×3 32, max-pool, convolution 3×3 64, max-pool, dense 128, dense 10.
// resnet: ResNet-20 of section 4.2 of He et al., "Deep residual learning for image recognition",
//         2015 (which has three channels and 32×32 pixels): 269,434 parameters.
// InvalidArgument for another name; errors of building stick to the scope.
absl::StatusOr<Classifier> BuildClassifier(const Scope& scope, absl::string_view model);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_EXAMPLES_MODELS_H_
