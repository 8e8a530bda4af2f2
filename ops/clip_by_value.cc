// SPDX-License-Identifier: Apache-2.0
#include "ops/clip_by_value.h"

#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/binary.h"
#include "ops/broadcast_gradient.h"
#include "ops/constant.h"
#include "ops/registry.h"
#include "ops/select.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"

namespace mirrorflow {
namespace {

absl::Status ClipByValueShape(ShapeContext& c) {
  const Shape& t = c.input(0);
  for (int i : {1, 2}) {
    const Shape& bound = c.input(i);
    const bool scalar = !bound.unknown_rank() && bound.rank() == 0;
    if (scalar) continue;
    MF_RETURN_IF_ERROR(CheckShape(t, bound, c.node().op().inputs[i].name,
                                  " must be a scalar or have the shape of t"));
  }
  return SetOutput(c, t);
}

absl::StatusOr<std::vector<Output>> ClipByValueGrad(const GradContext& c) {
  const Scope& s = c.scope;
  const Output t = c.op.input(0), dy = c.dy[0];
  const Output zero = ops::ScalarConst(s, dy.dtype(), 0);
  const Output below = ops::Less(s, t, c.op.input(1)), above = ops::Greater(s, t, c.op.input(2));
  return std::vector<Output>{
      ops::SelectV2(s, ops::LogicalOr(s, below, above), zero, dy),
      SumToOperand(c, 1, ops::SelectV2(s, below, dy, zero)),
      SumToOperand(c, 2, ops::SelectV2(s, above, dy, zero)),
  };
}

}  // namespace

void RegisterClipByValue(OpRegistry& ops) {
  ops.Define("ClipByValue")
      .Doc("output = max(min(t, clip_value_max), clip_value_min)")
      .Input("t: T")
      .Input("clip_value_min: T")
      .Input("clip_value_max: T")
      .Output("output: T")
      .Attr("T: {half, bfloat16, float, double, int32, int64, uint8}")
      .Traits(kElementwise)
      .Shape(ClipByValueShape)
      .Sharding(ElementwiseSharding)
      .Gradient(ClipByValueGrad);
}

namespace ops {

Output ClipByValue(const Scope& scope, Output t, Output clip_value_min, Output clip_value_max) {
  return Apply(scope, "ClipByValue", {t, clip_value_min, clip_value_max});
}

}  // namespace ops
}  // namespace mirrorflow
