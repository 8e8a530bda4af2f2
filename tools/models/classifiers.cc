// SPDX-License-Identifier: Apache-2.0
#include "tools/models/classifiers.h"

#include <iterator>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "ops/binary.h"
#include "ops/constant.h"
#include "ops/control.h"
#include "ops/identity.h"
#include "ops/reduction.h"
#include "ops/slice.h"
#include "ops/unary.h"
#include "train/inference.h"
#include "train/layers/layers.h"
#include "train/losses/losses.h"
#include "train/metrics/metrics.h"

namespace mirrorflow {
namespace {

Output Mlp(const Scope& scope, Output x) {
  x = layers::Dense(scope, x, 512, ops::Relu);
  x = layers::Dense(scope, x, 512, ops::Relu);
  return layers::Dense(scope, x, 10);
}

Output Cnn(const Scope& scope, Output x) {
  x = layers::Conv2D(scope, x, 32, 3, ops::Relu);
  x = layers::MaxPooling2D(scope, x);
  x = layers::Conv2D(scope, x, 64, 3, ops::Relu);
  x = layers::MaxPooling2D(scope, x);
  x = layers::Dense(scope, layers::Flatten(scope, x), 128, ops::Relu);
  return layers::Dense(scope, x, 10);
}

constexpr int kBlocksPerStage = 3;

// A convolution followed by batch normalisation.
Output ConvNorm(const Scope& scope, Output x, int64_t filters, int64_t kernel_size, int64_t strides,
                layers::Activation activation) {
  x = layers::Conv2D(scope, x, filters, kernel_size, nullptr,
                     {.strides = strides,
                      .padding = "SAME",
                      .use_bias = false,
                      .kernel_initializer = initializers::HeNormal()});
  return layers::BatchNorm(scope, x, activation);
}

// The paper's option A: the shortcut takes every second pixel and fills the added channels with
// zeros.
Output Shortcut(const Scope& scope, Output x, int64_t filters, int64_t strides) {
  if (strides == 1 || !scope.ok()) return x;
  const auto added = static_cast<int32_t>(filters - scope.shape(x).dim(3));
  x = layers::MaxPooling2D(scope, x, 1, {.strides = strides});
  return ops::Pad(
      scope, x,
      ops::Const(scope, Tensor::Of<int32_t>({4, 2}, {0, 0, 0, 0, 0, 0, added / 2, added / 2})));
}

Output ResNet20(const Scope& scope, Output x) {
  x = ConvNorm(scope, x, 16, 3, 1, ops::Relu);
  for (const int64_t filters : {16, 32, 64}) {
    for (int block = 0; block < kBlocksPerStage; ++block) {
      const Scope s = scope.SubScope("block");
      const int64_t strides = block == 0 && filters > 16 ? 2 : 1;
      const Output residual =
          ConvNorm(s, ConvNorm(s, x, filters, 3, strides, ops::Relu), filters, 3, 1,
                   /*activation=*/nullptr);
      x = ops::Relu(s, ops::AddV2(s, residual, Shortcut(s, x, filters, strides)));
    }
  }
  return layers::Dense(scope, ops::Mean(scope, x, {1, 2}), 10);
}

// The paper's option B: where the shape changes, the shortcut is a convolution.
Output Bottleneck(const Scope& scope, Output x, int64_t width, int64_t strides, bool same_shape) {
  const int64_t filters = 4 * width;
  Output residual = ConvNorm(scope, x, width, 1, 1, ops::Relu);
  residual = ConvNorm(scope, residual, width, 3, strides, ops::Relu);
  residual = ConvNorm(scope, residual, filters, 1, 1, /*activation=*/nullptr);
  if (!same_shape) x = ConvNorm(scope, x, filters, 1, strides, /*activation=*/nullptr);
  return ops::Relu(scope, ops::AddV2(scope, residual, x));
}

constexpr struct {
  absl::string_view name;
  bool flat;  // whether images are vectors
  Output (*build)(const Scope&, Output);
} kModels[] = {{"mlp", true, Mlp}, {"cnn", false, Cnn}, {"resnet", false, ResNet20}};

// Builds a classifier of images of this shape. `build` computes its logits.
template <typename Build>
Classifier Classify(const Scope& scope, const Shape& images, const Build& build) {
  Classifier c;
  c.images = ops::Placeholder(scope.WithName("images"), DT_FLOAT, images);
  c.labels = ops::Placeholder(scope.WithName("labels"), DT_INT32, {-1});
  const Output trained = build(scope, c.images);
  c.loss = losses::SparseSoftmaxCrossEntropy(scope, trained, c.labels);
  // The name is fixed, so programs that run the saved graph can fetch it.
  c.logits = ops::Identity(scope.WithName("logits"), ForInference(scope, trained));
  c.test_loss = losses::SparseSoftmaxCrossEntropy(scope, c.logits, c.labels);
  c.accuracy = metrics::Accuracy(scope, c.logits, c.labels);
  return c;
}

}  // namespace

absl::StatusOr<Classifier> BuildClassifier(const Scope& scope, absl::string_view model) {
  const auto* const known = absl::c_find_if(kModels, [&](auto& m) { return m.name == model; });
  if (known == std::end(kModels)) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown model; expected mlp, cnn or resnet, got '", model, "'"));
  }
  return Classify(scope, known->flat ? Shape({-1, 784}) : Shape({-1, 28, 28, 1}), known->build);
}

Classifier BuildResNet50(const Scope& scope, const ResNet50Config& config) {
  return Classify(scope, Shape({-1, config.pixels, config.pixels, 3}),
                  [&config](const Scope& scope, Output x) {
                    x = ConvNorm(scope, x, config.width, 7, 2, ops::Relu);
                    x = layers::MaxPooling2D(scope, x, 3, {.strides = 2, .padding = "SAME"});
                    int64_t width = config.width;
                    for (const int64_t blocks : config.blocks) {
                      for (int64_t block = 0; block < blocks; ++block) {
                        const int64_t strides = block == 0 && width > config.width ? 2 : 1;
                        x = Bottleneck(scope.SubScope("block"), x, width, strides, block > 0);
                      }
                      width *= 2;
                    }
                    return layers::Dense(scope, ops::Mean(scope, x, {1, 2}), config.classes);
                  });
}

}  // namespace mirrorflow
