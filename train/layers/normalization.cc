// SPDX-License-Identifier: Apache-2.0
#include "train/layers/normalization.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "ops/batch_norm.h"
#include "ops/binary.h"
#include "ops/constant.h"
#include "ops/layer_norm.h"
#include "ops/reduction.h"
#include "ops/reshape.h"
#include "ops/unary.h"
#include "train/layers/layer_support.h"
#include "train/numeric_options.h"
#include "train/variable.h"

namespace mirrorflow {
namespace layers {
namespace {

// Returns x / sqrt(square + epsilon).
Output DivideByRoot(const Scope& s, Output x, Output square, double epsilon) {
  const Output sum = ops::AddV2(s, square, ops::ScalarConst(s, x.dtype(), epsilon));
  return ops::Mul(s, x, ops::Rsqrt(s, sum));
}

}  // namespace

Output BatchNorm(const Scope& scope, Output x, const Activation& activation,
                 const BatchNormOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!CheckNumbers(s, options.name,
                    {{"momentum", options.momentum, kFraction},
                     {"epsilon", options.epsilon, kNotNegative}})) {
    return Output();
  }
  const int rank = s.shape(x).unknown_rank() ? 2 : s.shape(x).rank();
  const bool images = rank == 4;
  const std::optional<int64_t> in =
      InputDepth(s, x, rank >= 3 && rank <= 5 ? rank : 2, options.name);
  if (!in) return Output();
  auto channels = [&](absl::string_view name, const Initializer& initializer, bool trainable) {
    return CreateVariable(s, name, {*in}, initializer, DT_FLOAT, {.trainable = trainable});
  };
  const Variable gamma = channels("gamma", initializers::Ones(), true);
  const Variable beta = channels("beta", initializers::Zeros(), true);
  const Variable mean = channels("moving_mean", initializers::Zeros(), false);
  const Variable variance = channels("moving_variance", initializers::Ones(), false);
  const Output original = x;
  if (!images) x = ops::Reshape(s, x, Shape({kUnknownDim, 1, 1, *in}));
  const ops::FusedBatchNormV3Outputs norm =
      ops::FusedBatchNormV3(s, x, gamma.value, beta.value, mean.value, variance.value,
                            {.epsilon = static_cast<float>(options.epsilon),
                             .exponential_avg_factor = static_cast<float>(1 - options.momentum),
                             .per_replica = options.per_replica});
  if (!s.ok()) return Output();
  if (mean.handle.node->has_attr(kNextValueAttr)) {
    s.Fail(absl::UnimplementedError(absl::StrCat(
        options.name, ": a shared batch normalization cannot be applied twice, because ",
        "each step updates its moving averages once; expected one application")));
    return Output();
  }
  s.graph().SetAttr(mean.handle.node, kNextValueAttr, norm.batch_mean.ToString());
  s.graph().SetAttr(variance.handle.node, kNextValueAttr, norm.batch_variance.ToString());
  const Output y = images ? norm.y : ops::ReshapeLike(s, norm.y, original);
  return activation(s, y);
}

Output LayerNormalization(const Scope& scope, Output x, const LayerNormalizationOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!CheckNumbers(s, options.name, {{"epsilon", options.epsilon, kNotNegative}})) return Output();
  const std::optional<int64_t> width = InputDepth(s, x, options.name);
  if (!width) return Output();
  const Variable gamma = CreateVariable(s, "gamma", {*width}, initializers::Ones());
  const Variable beta = CreateVariable(s, "beta", {*width}, initializers::Zeros());
  return ops::LayerNorm(s, x, gamma.value, beta.value,
                        {.epsilon = static_cast<float>(options.epsilon)})
      .y;
}

Output GroupNormalization(const Scope& scope, Output x, const GroupNormalizationOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!CheckNumbers(s, options.name, {{"epsilon", options.epsilon, kNotNegative}})) return Output();
  const Shape shape = s.shape(x);
  const int rank = shape.unknown_rank() ? 2 : shape.rank();
  if (!CheckExamples(s, x, rank < 2 ? 2 : rank, options.name)) return Output();
  const int64_t channels = shape.dim(rank - 1);
  const int64_t groups = options.groups == -1 ? channels : options.groups;
  if (groups < 1 || channels % groups != 0) {
    return Fail(s, options.name,
                ": groups out of range; expected -1 or a divisor of the channel count, got ",
                options.groups, " for shape ", shape.ToString());
  }
  int64_t pixels = 1;
  for (int d = 1; d < rank - 1; ++d) pixels *= shape.dim(d);
  const Output grouped =
      ops::Reshape(s, x, Shape({kUnknownDim, pixels, groups, channels / groups}));
  const auto mean = [&](Output value) { return ops::Mean(s, value, {1, 3}, {.keep_dims = true}); };
  const Output centered = ops::Sub(s, grouped, mean(grouped));
  const Output normal = DivideByRoot(s, centered, mean(ops::Square(s, centered)), options.epsilon);
  Shape result = shape;
  result.set_dim(0, kUnknownDim);
  Output y = ops::Reshape(s, normal, result);
  if (options.scale) {
    const Variable gamma = CreateVariable(s, "gamma", {channels}, initializers::Ones());
    y = ops::Mul(s, y, gamma.value);
  }
  if (options.center) {
    const Variable beta = CreateVariable(s, "beta", {channels}, initializers::Zeros());
    y = ops::AddV2(s, y, beta.value);
  }
  return y;
}

Output RMSNormalization(const Scope& scope, Output x, const RMSNormalizationOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!CheckNumbers(s, options.name, {{"epsilon", options.epsilon, kNotNegative}})) return Output();
  const std::optional<int64_t> width = InputDepth(s, x, options.name);
  if (!width) return Output();
  const Variable scale = CreateVariable(s, "scale", {*width}, initializers::Ones());
  const Output mean = ops::Mean(s, ops::Square(s, x), {-1}, {.keep_dims = true});
  return ops::Mul(s, DivideByRoot(s, x, mean, options.epsilon), scale.value);
}

Output UnitNormalization(const Scope& scope, Output x) {
  const Scope s = scope.SubScope("unit_normalization");
  if (!s.ok()) return Output();
  const Output sum = ops::Sum(s, ops::Square(s, x), {-1}, {.keep_dims = true});
  // Use Keras' lower bound, which turns 0 / 0 into 0.
  const Output root = ops::Sqrt(s, ops::Maximum(s, sum, ops::ScalarConst(s, x.dtype(), 1e-12)));
  return ops::RealDiv(s, x, root);
}

}  // namespace layers
}  // namespace mirrorflow
