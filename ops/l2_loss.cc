// SPDX-License-Identifier: Apache-2.0
#include "ops/l2_loss.h"

#include "absl/strings/str_cat.h"
#include "framework/graph/shape_inference.h"
#include "ops/binary.h"
#include "ops/registry.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"

namespace mirrorflow {
namespace {

absl::StatusOr<ShardingRule> L2LossSharding(const ShardContext& c) {
  return ShardingRule{.dims = absl::StrCat(LettersFor(c.input(0)), "->")};
}

absl::StatusOr<std::vector<Output>> L2LossGrad(const GradContext& c) {
  return std::vector<Output>{ops::Mul(c.scope, c.op.input(0), c.dy[0])};
}

}  // namespace

void RegisterL2Loss(OpRegistry& ops) {
  ops.Define("L2Loss")
      .Doc("output = sum(t^2) / 2")
      .Input("t: T")
      .Output("output: T")
      .Attr("T: {half, bfloat16, float, double}")
      .Shape(ScalarShape)
      .Sharding(L2LossSharding)
      .Gradient(L2LossGrad);
}

namespace ops {

Output L2Loss(const Scope& scope, Output t) { return Apply(scope, "L2Loss", {t}); }

}  // namespace ops
}  // namespace mirrorflow
