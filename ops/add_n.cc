// SPDX-License-Identifier: Apache-2.0
#include "ops/add_n.h"

#include "framework/core/status.h"
#include "framework/graph/list_info.h"
#include "ops/registry.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"

namespace mirrorflow {
namespace {

// Merges `shape` with the shapes of all inputs starting at `first`, and sets the result as the
// shape of output 0.
absl::Status MergeInputs(ShapeContext& c, Shape shape, int first) {
  for (int i = first; i < c.num_inputs(); ++i) {
    MF_ASSIGN_OR_RETURN(shape, MergeShapes(shape, c.input(i), "input ", i,
                                           " must have the same shape as the inputs before it"));
  }
  return SetOutput(c, std::move(shape));
}

absl::Status AddNShape(ShapeContext& c) {
  if (c.node().output_dtype(0) != DT_VARIANT) return MergeInputs(c, c.input(0), 1);
  ListInfo sum = ListInput(c, 0);
  for (int i = 1; i < c.num_inputs(); ++i) {
    MF_ASSIGN_OR_RETURN(sum, EitherList(sum, ListInput(c, i)));
  }
  sum.common = Tensor();
  SetList(c, 0, sum);
  return absl::OkStatus();
}

absl::Status AccumulateNV2Shape(ShapeContext& c) {
  return MergeInputs(c, c.attr<Shape>("shape"), 0);
}

absl::StatusOr<std::vector<Output>> AddNGrad(const GradContext& c) {
  return std::vector<Output>(c.op.num_inputs(), c.dy[0]);
}

}  // namespace

void RegisterAddN(OpRegistry& ops) {
  ops.Define("AccumulateNV2")
      .Doc("sum = inputs[0] + inputs[1] + …; all inputs have shape `shape`")
      .Input("inputs: N * T")
      .Output("sum: T")
      .Attr("N: int >= 1")
      .Attr("T: {half, bfloat16, float, double, int32, int64, uint8}")
      .Attr("shape: shape")
      .Traits(kElementwise)
      .Shape(AccumulateNV2Shape)
      .Sharding(JointlyLinearSharding)
      .Gradient(AddNGrad);
  ops.Define("AddN")
      .Doc("sum = inputs[0] + inputs[1] + …")
      .Input("inputs: N * T")
      .Output("sum: T")
      .Attr("N: int >= 1")
      .Attr("T: {half, bfloat16, float, double, int32, int64, uint8, variant}")
      .Traits(kElementwise)
      .Role(OpRole::kAddAll)
      .Shape(AddNShape)
      .Sharding(JointlyLinearSharding)
      .Gradient(AddNGrad);
}

namespace ops {

Output AddN(const Scope& scope, absl::Span<const Output> inputs) {
  return Build(scope, "AddN").InputList(inputs).One();
}

Output AccumulateNV2(const Scope& scope, absl::Span<const Output> inputs,
                     const mirrorflow::Shape& shape) {
  return Build(scope, "AccumulateNV2").InputList(inputs).Attr("shape", shape).One();
}

}  // namespace ops
}  // namespace mirrorflow
