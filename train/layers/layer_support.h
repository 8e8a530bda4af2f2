// SPDX-License-Identifier: Apache-2.0
//
// Helpers for layers. Failed checks fail the scope with a message that names the layer.
#ifndef MIRRORFLOW_TRAIN_LAYERS_LAYER_SUPPORT_H_
#define MIRRORFLOW_TRAIN_LAYERS_LAYER_SUPPORT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/scope.h"
#include "ops/bias_add.h"
#include "train/layers/activation.h"
#include "train/layers/sizes.h"
#include "train/variable.h"

namespace mirrorflow {
namespace layers {

// Returns the last dimension of x, which determines the shapes of the layer's variables. Fails the
// scope if that dimension is unknown or x has a different rank.
std::optional<int64_t> InputDepth(const Scope& scope, Output x, int rank, absl::string_view layer);

// Like InputDepth above, for x of any rank.
std::optional<int64_t> InputDepth(const Scope& scope, Output x, absl::string_view layer);

// Returns the number of input channels per group. Fails the scope unless x has this rank, and its
// last dimension, the channels, is known and a multiple of `groups`.
std::optional<int64_t> GroupDepth(const Scope& scope, Output x, int rank, int64_t groups,
                                  absl::string_view layer);

// Returns whether the size `value` is at least 1. If not, fails the scope.
bool CheckSize(const Scope& scope, absl::string_view layer, absl::string_view what, int64_t value);
bool CheckSize(const Scope& scope, absl::string_view layer, absl::string_view what, Size2D value);

// Returns whether x has this rank. If not, fails the scope.
bool CheckRank(const Scope& scope, Output x, int rank, absl::string_view layer);

// Returns whether x has at least `rank` dimensions and its last `known` dimensions are known.
bool EndsKnown(const Scope& scope, Output x, int rank, int known);

// Returns whether x has this rank and every dimension after the first is known. If not, fails the
// scope.
bool CheckExamples(const Scope& scope, Output x, int rank, absl::string_view layer);

// Returns y, the result of an op that slides a window over images x. If the window is larger than
// the images, fails the scope with a message that names the node, as Keras' layers do.
// (TensorFlow's ops return an empty result if the images are too small by less than a stride.)
Output UnlessEmpty(const Scope& scope, Output x, Output y, Size2D window, Size2D dilation = 1);

// Returns a shape operand that consists of the first dimension of x and `rest`.
Output BatchShape(const Scope& scope, Output x, absl::Span<const int64_t> rest);

// Returns a constant with these values, cast to `dtype`.
Output FloatConst(const Scope& scope, const Shape& shape, absl::Span<const float> values,
                  DataType dtype);

// Returns {1, height, width, 1}, the form of sizes that image ops take.
std::vector<int64_t> OfImages(Size2D size);

// Fails the scope with InvalidArgument, whose message consists of these parts. Returns an invalid
// output.
template <typename... Parts>
Output Fail(const Scope& scope, const Parts&... what) {
  scope.Fail(absl::InvalidArgumentError(absl::StrCat(what...)));
  return Output();
}

// Adds a variable `bias` of size `units` to y if options.use_bias is set, then applies the
// activation.
template <typename Options>
Output AddBias(const Scope& scope, Output y, int64_t units, const Options& options,
               const Activation& activation) {
  if (options.use_bias) {
    const Variable bias = CreateVariable(scope, "bias", {units}, options.bias_initializer);
    y = ops::BiasAdd(scope, y, bias.value);
  }
  return activation(scope, y);
}

}  // namespace layers
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LAYERS_LAYER_SUPPORT_H_
