// SPDX-License-Identifier: Apache-2.0
#include "ops/control.h"

#include "framework/graph/shape_inference.h"
#include "ops/registry.h"

namespace mirrorflow {
namespace {

absl::Status PlaceholderShape(ShapeContext& c) {
  c.set_output(0, c.attr<Shape>("shape"));
  return absl::OkStatus();
}

absl::Status NoOpShape(ShapeContext&) { return absl::OkStatus(); }

absl::StatusOr<ShardingRule> NoOpSharding(const ShardContext&) {
  return ShardingRule{.dims = "->"};
}

}  // namespace

void RegisterControl(OpRegistry& ops) {
  ops.Define("Placeholder")
      .Doc("a value that every step feeds")
      .Output("output: dtype")
      .Attr("dtype: type")
      .Attr("shape: shape = unknown")
      .Role(OpRole::kPlaceholder)
      .Shape(PlaceholderShape)
      .Gathers("it is a feed: how feeds are split is decided where a step is prepared")
      .NoGradient("it has no inputs");
  ops.Define("NoOp")
      .Doc("does nothing, after its control inputs")
      .Role(OpRole::kNoOp)
      .Shape(NoOpShape)
      .Sharding(NoOpSharding)
      .NoGradient("it has no inputs");
}

namespace ops {

Output Placeholder(const Scope& scope, DataType dtype, const mirrorflow::Shape& shape) {
  return Build(scope, "Placeholder").Attr("dtype", dtype).Attr("shape", shape).One();
}

Operation NoOp(const Scope& scope) { return Build(scope, "NoOp").Op(); }

Operation Group(const Scope& scope, absl::Span<const Operation> operations) {
  return NoOp(scope.WithControlDependencies(operations));
}

}  // namespace ops
}  // namespace mirrorflow
