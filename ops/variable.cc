// SPDX-License-Identifier: Apache-2.0
#include "ops/variable.h"

#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/registry.h"
#include "ops/shape_values.h"

namespace mirrorflow {
namespace {

absl::Status VarHandleShape(ShapeContext& c) {
  c.set_handle(0, c.attr<DataType>("dtype"), c.attr<Shape>("shape"));
  return absl::OkStatus();
}

absl::Status ReadShape(ShapeContext& c) {
  MF_RETURN_IF_ERROR(CheckHandle(c));
  return SetOutput(c, c.handle_shape(0));
}

absl::StatusOr<ShardingRule> ReadSharding(const ShardContext&) {
  return ShardingRule{.dims = "*->*"};
}

absl::Status HasValueShape(ShapeContext& c) {
  MF_RETURN_IF_ERROR(c.WithRank(0, 0).status());
  return SetOutput(c, Shape());
}

absl::Status AssignShape(ShapeContext& c) {
  MF_RETURN_IF_ERROR(CheckHandle(c));
  return CheckShape(c.handle_shape(0), c.input(1),
                    "the value's shape must match the variable's shape");
}

// The rule is linear, so that a variable that is synchronised on read accepts a partial sum.
absl::StatusOr<ShardingRule> AssignSharding(const ShardContext& c) {
  const bool sums = c.node().attr<DataType>("dtype") != DT_BOOL;
  return ShardingRule{.dims = "*,*->",
                      .linearity = sums ? Linearity::kJoint : Linearity::kNone,
                      .linear_inputs = {1}};
}

constexpr absl::string_view kGradientAtRead =
    "the gradient with respect to a variable is taken at its ReadVariableOp";

OpBuilder DefineAssign(OpRegistry& ops, absl::string_view name, absl::string_view doc) {
  return ops.Define(name)
      .Doc(doc)
      .Input("resource: resource")
      .Input("value: dtype")
      .Attr("dtype: type")
      .Role(OpRole::kWrite)
      .Traits(kStateful)
      .Shape(AssignShape)
      .Sharding(AssignSharding)
      .NoGradient("a write has no outputs");
}

}  // namespace

void RegisterVariable(OpRegistry& ops) {
  ops.Define("VarHandleOp")
      .Doc("the handle of a variable")
      .Output("resource: resource")
      .Attr("container: string = ''")
      .Attr("shared_name: string = ''")
      .Attr("debug_name: string = ''")
      .Attr("dtype: type")
      .Attr("shape: shape")
      .Attr("allowed_devices: list(string) = []")
      .Role(OpRole::kVariable)
      .Traits(kStateful)
      .Shape(VarHandleShape)
      .Gathers("a handle is not a value: every replica has its own copy of the variable")
      .NoGradient(kGradientAtRead);
  ops.Define("ReadVariableOp")
      .Doc("value = the variable's value")
      .Input("resource: resource")
      .Output("value: dtype")
      .Attr("dtype: type")
      .Role(OpRole::kRead)
      .Traits(kStateful)
      .Shape(ReadShape)
      .Sharding(ReadSharding)
      .NoGradient(kGradientAtRead);
  ops.Define("VarIsInitializedOp")
      .Doc("is_initialized = whether the variable has a value")
      .Input("resource: resource")
      .Output("is_initialized: bool")
      .Role(OpRole::kHasValue)
      .Traits(kStateful)
      .Shape(HasValueShape)
      .Gathers("a constant replaces it before shardings are chosen")
      .NoGradient("the output is bool");
  DefineAssign(ops, ops::kAssignVariable, "variable = value")
      .Traits(kOverwrites)
      .Attr("validate_shape: bool = false");
  DefineAssign(ops, ops::kAssignAddVariable, "variable += value");
  DefineAssign(ops, ops::kAssignSubVariable, "variable -= value");
}

namespace ops {

Output VarHandleOp(const Scope& scope, DataType dtype, const mirrorflow::Shape& shape,
                   const VarHandleOpOptions& options) {
  return Build(scope, "VarHandleOp")
      .Attr("container", options.container)
      .Attr("shared_name", options.shared_name)
      .Attr("debug_name", options.debug_name)
      .Attr("dtype", dtype)
      .Attr("shape", shape)
      .One();
}

Output ReadVariableOp(const Scope& scope, Output handle) {
  // An invalid handle has no row in the shape table; Finish() reports why it is invalid.
  const DataType dtype =
      handle.valid() ? scope.graph().values().at(handle).handle_dtype : DT_INVALID;
  return Build(scope, "ReadVariableOp", {handle}).Attr("dtype", dtype).One();
}

Output VarIsInitializedOp(const Scope& scope, Output handle) {
  return Apply(scope, "VarIsInitializedOp", {handle});
}

Operation AssignVariableOp(const Scope& scope, Output handle, Output value) {
  return Build(scope, kAssignVariable, {handle, value}).Op();
}

Operation AssignAddVariableOp(const Scope& scope, Output handle, Output value) {
  return Build(scope, kAssignAddVariable, {handle, value}).Op();
}

Operation AssignSubVariableOp(const Scope& scope, Output handle, Output value) {
  return Build(scope, kAssignSubVariable, {handle, value}).Op();
}

}  // namespace ops
}  // namespace mirrorflow
