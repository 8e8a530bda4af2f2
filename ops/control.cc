// SPDX-License-Identifier: Apache-2.0
#include "ops/control.h"

#include <vector>

#include "framework/core/status.h"
#include "ops/identity.h"
#include "ops/registry.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"

namespace mirrorflow {
namespace {

absl::Status PlaceholderShape(ShapeContext& c) { return SetOutput(c, c.attr<Shape>("shape")); }

// The output has shape `shape`. The default's shape and value do not apply, because a step may feed
// a different value.
absl::Status PlaceholderWithDefaultShape(ShapeContext& c) {
  const Shape& shape = c.attr<Shape>("shape");
  MF_RETURN_IF_ERROR(
      CheckShape(shape, c.input(0), "the default must have the shape in attribute 'shape'"));
  return SetOutput(c, shape);
}

absl::StatusOr<std::vector<Output>> PlaceholderWithDefaultGrad(const GradContext& c) {
  return std::vector<Output>{ops::Identity(c.scope, c.dy[0])};
}

absl::Status NoOpShape(ShapeContext&) { return absl::OkStatus(); }

}  // namespace

void RegisterControl(OpRegistry& ops) {
  ops.Define("Placeholder")
      .Doc("a value that every step must feed")
      .Output("output: dtype")
      .Attr("dtype: type")
      .Attr("shape: shape = unknown")
      .Role(OpRole::kPlaceholder)
      .Shape(PlaceholderShape)
      .Gathers("it is a feed, whose split is decided when the step is prepared")
      .NoGradient("it has no inputs");
  ops.Define("PlaceholderWithDefault")
      .Doc("a value that a step may feed; defaults to the input")
      .Input("input: dtype")
      .Output("output: dtype")
      .Attr("dtype: type")
      .Attr("shape: shape")
      .Role(OpRole::kPlaceholder)
      .Traits(kView)
      .Shape(PlaceholderWithDefaultShape)
      .Sharding(JointlyLinearSharding)
      .Gradient(PlaceholderWithDefaultGrad);
  ops.Define("NoOp")
      .Doc("does nothing; runs after its control inputs")
      .Role(OpRole::kNoOp)
      .Shape(NoOpShape)
      .Sharding(ReplicatedSharding)
      .NoGradient("it has no inputs");
}

namespace ops {

Output Placeholder(const Scope& scope, DataType dtype, const mirrorflow::Shape& shape) {
  return Build(scope, "Placeholder").Attr("dtype", dtype).Attr("shape", shape).One();
}

Output PlaceholderWithDefault(const Scope& scope, Output input, const mirrorflow::Shape& shape) {
  return Build(scope, "PlaceholderWithDefault", {input}).Attr("shape", shape).One();
}

Operation NoOp(const Scope& scope) { return Build(scope, "NoOp").Op(); }

Operation Group(const Scope& scope, absl::Span<const Operation> operations) {
  return NoOp(scope.WithControlDependencies(operations));
}

}  // namespace ops
}  // namespace mirrorflow
