// SPDX-License-Identifier: Apache-2.0
#include "train/layers/normalization.h"

#include "absl/strings/str_cat.h"
#include "ops/batch_norm.h"
#include "ops/layer_norm.h"
#include "ops/reshape.h"
#include "train/layers/layer_support.h"
#include "train/numeric_options.h"
#include "train/variable.h"

namespace mirrorflow {
namespace layers {

Output BatchNorm(const Scope& scope, Output x, const Activation& activation,
                 const BatchNormOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!s.ok()) return Output();
  if (!CheckNumbers(s, options.name,
                    {{"momentum", options.momentum, kFraction},
                     {"epsilon", options.epsilon, kNotNegative}})) {
    return Output();
  }
  const int rank = s.shape(x).unknown_rank() ? 2 : s.shape(x).rank();
  const bool images = rank == 4;
  const absl::StatusOr<int64_t> in =
      InputDepth(s, x, rank >= 3 && rank <= 5 ? rank : 2, options.name);
  if (!in.ok()) {
    s.Fail(in.status());
    return Output();
  }
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
    s.Fail(absl::UnimplementedError(
        absl::StrCat(options.name, ": expected one application of a batch normalization, whose ",
                     "moving averages each step updates once, got a second one")));
    return Output();
  }
  s.graph().SetAttr(mean.handle.node, kNextValueAttr, norm.batch_mean.ToString());
  s.graph().SetAttr(variance.handle.node, kNextValueAttr, norm.batch_variance.ToString());
  const Output y = images ? norm.y : ops::ReshapeLike(s, norm.y, original);
  return activation(s, y);
}

Output LayerNormalization(const Scope& scope, Output x, const LayerNormalizationOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!s.ok()) return Output();
  if (!CheckNumbers(s, options.name, {{"epsilon", options.epsilon, kNotNegative}})) return Output();
  if (!EndsKnown(s, x, 1, 1)) {
    return Fail(s, absl::StrCat(options.name, ": expected an input whose last dimension is known, ",
                                "got shape ", s.shape(x).ToString()));
  }
  const int64_t width = s.shape(x).dim(s.shape(x).rank() - 1);
  const Variable gamma = CreateVariable(s, "gamma", {width}, initializers::Ones());
  const Variable beta = CreateVariable(s, "beta", {width}, initializers::Zeros());
  return ops::LayerNorm(s, x, gamma.value, beta.value,
                        {.epsilon = static_cast<float>(options.epsilon)})
      .y;
}

}  // namespace layers
}  // namespace mirrorflow
