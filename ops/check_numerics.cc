// SPDX-License-Identifier: Apache-2.0
#include "ops/check_numerics.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "framework/graph/shape_inference.h"
#include "ops/registry.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"

namespace mirrorflow {
namespace {

absl::StatusOr<std::vector<Output>> CheckNumericsGrad(const GradContext& c) {
  return std::vector<Output>{ops::CheckNumerics(
      c.scope, c.dy[0],
      absl::StrCat("Not a number (NaN) or infinity (Inf) values detected in gradient. ",
                   c.op.attr<std::string>("message")))};
}

}  // namespace

void RegisterCheckNumerics(OpRegistry& ops) {
  for (absl::string_view name : {"CheckNumerics", "CheckNumericsV2"}) {
    ops.Define(name)
        .Doc("output = tensor; fails the step if an element is not finite")
        .Input("tensor: T")
        .Output("output: T")
        .Attr("T: {bfloat16, half, float, double}")
        .Attr("message: string")
        .Traits(kElementwise | kFailsOnData)
        .Shape(UnchangedShape)
        .Sharding(ElementwiseSharding)
        .Gradient(CheckNumericsGrad);
  }
}

namespace ops {

Output CheckNumerics(const Scope& scope, Output tensor, absl::string_view message) {
  return Build(scope, "CheckNumerics", {tensor}).Attr("message", std::string(message)).One();
}

}  // namespace ops
}  // namespace mirrorflow
