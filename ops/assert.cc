// SPDX-License-Identifier: Apache-2.0
#include "ops/assert.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/registry.h"

namespace mirrorflow {
namespace {

absl::Status AssertShape(ShapeContext& c) { return c.WithRank(0, 0).status(); }

// Every replica checks the whole values, so all replicas make the same decision.
absl::StatusOr<ShardingRule> AssertSharding(const ShardContext& c) {
  const std::vector<absl::string_view> terms(c.num_inputs(), "*");
  return ShardingRule{.dims = absl::StrCat(absl::StrJoin(terms, ","), "->")};
}

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
      .Sharding(AssertSharding)
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
