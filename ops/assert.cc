// SPDX-License-Identifier: Apache-2.0
#include "ops/assert.h"

#include "framework/graph/shape_inference.h"
#include "ops/registry.h"
#include "ops/sharding_rules.h"

namespace mirrorflow {
namespace {

absl::Status AssertShape(ShapeContext& c) { return c.WithRank(0, 0).status(); }

}  // namespace

void RegisterAssert(OpRegistry& ops) {
  ops.Define("Assert")
      .Doc("fails the step with an error that shows `data`, unless `condition` is true")
      .Input("condition: bool")
      .Input("data: T")
      .Attr("T: list(type) >= 1")
      .Attr("summarize: int = 3")
      .Traits(kStateful)
      .Shape(AssertShape)
      .Sharding(ReplicatedSharding)  // so that all replicas make the same decision
      .NoGradient("it has no outputs");
}

namespace ops {

Operation Assert(const Scope& scope, Output condition, absl::Span<const Output> data,
                 const AssertOptions& options) {
  return Build(scope, "Assert", {condition})
      .InputList(data)
      .Attr("summarize", options.summarize)
      .Op();
}

}  // namespace ops
}  // namespace mirrorflow
