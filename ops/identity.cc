// SPDX-License-Identifier: Apache-2.0
#include "ops/identity.h"

#include "framework/graph/shape_inference.h"
#include "ops/no_flow.h"
#include "ops/registry.h"
#include "ops/sharding_rules.h"

namespace mirrorflow {
namespace {

constexpr char kAny[] = "T: {float, double, int32, int64, uint8, bool, resource}";

// What is known of the value stays known; another name of a variable's handle is its handle.
absl::Status IdentityShape(ShapeContext& c) {
  const ValueInfo& info = c.input_info(0);
  if (info.handle_dtype != DT_INVALID) {
    c.set_handle(0, info.handle_dtype, info.handle_shape);
  } else if (info.constant.has_value()) {
    c.set_constant(0, info.constant);
  } else if (info.as_shape.has_value()) {
    c.set_output_as_shape(0, *info.as_shape);
  } else {
    c.set_output(0, info.shape);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Output>> IdentityGrad(const GradContext& c) {
  return std::vector<Output>{ops::Identity(c.scope, c.dy[0])};
}

}  // namespace

void RegisterIdentity(OpRegistry& ops) {
  ops.Define("Identity")
      .Doc("output = input")
      .Input("input: T")
      .Output("output: T")
      .Attr(kAny)
      .Traits(kView)
      .Shape(IdentityShape)
      .Sharding(JointlyLinearSharding)
      .Gradient(IdentityGrad);
  ops.Define("StopGradient")
      .Doc("output = input, a constant for gradients")
      .Input("input: T")
      .Output("output: T")
      .Attr(kAny)
      .Traits(kView)
      .Shape(IdentityShape)
      .Sharding(JointlyLinearSharding)
      .Gradient(NoFlow);
}

namespace ops {

Output Identity(const Scope& scope, Output input) {
  return Build(scope, "Identity").Input(input).One();
}

Output StopGradient(const Scope& scope, Output input) {
  return Build(scope, "StopGradient").Input(input).One();
}

}  // namespace ops
}  // namespace mirrorflow
