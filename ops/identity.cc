// SPDX-License-Identifier: Apache-2.0
#include "ops/identity.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "framework/graph/list_info.h"
#include "ops/gradients.h"
#include "ops/registry.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"

namespace mirrorflow {
namespace {

constexpr char kAny[] =
    "T: {half, bfloat16, float, double, int32, int64, uint8, bool, resource, variant}";

// Copies all that is known about the value. A variable handle remains the same handle.
absl::Status IdentityShape(ShapeContext& c) {
  const ValueInfo& info = c.input_info(0);
  if (c.node().output_dtype(0) == DT_VARIANT) {
    SetList(c, 0, ListInput(c, 0));
  } else if (info.handle_dtype != DT_INVALID) {
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

absl::Status IdentityNShape(ShapeContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) {
    const ValueInfo& info = c.input_info(i);
    c.set_output(i, info.shape);
    if (info.constant.has_value()) {
      c.set_constant(i, info.constant);
    } else if (info.as_shape.has_value()) {
      c.set_output_as_shape(i, *info.as_shape);
    }
  }
  return absl::OkStatus();
}

// Either all outputs are sharded, along dimensions of equal size, or none is.
absl::StatusOr<ShardingRule> IdentityNSharding(const ShardContext& c) {
  std::vector<std::string> terms;
  bool numbers = true;
  for (int i = 0; i < c.num_inputs(); ++i) {
    terms.push_back(DotsFor(c.input(i)));
    numbers = numbers && c.node().output_dtype(i) != DT_BOOL;
  }
  for (int d = 0; d < c.input(0).rank(); ++d) {
    bool all = true;
    for (int i = 0; i < c.num_inputs(); ++i) {
      all = all && d < c.input(i).rank() && c.input(i).dim(d) == c.input(0).dim(d);
    }
    for (std::string& term : terms) {
      if (all) term[d] = static_cast<char>('a' + d);
    }
  }
  const std::string all = absl::StrJoin(terms, ",");
  return ShardingRule{.dims = absl::StrCat(all, "->", all),
                      .linearity = numbers ? Linearity::kJoint : Linearity::kNone};
}

absl::Status EnsureShapeShape(ShapeContext& c) {
  MF_RETURN_IF_ERROR(IdentityShape(c));
  return SetOutput(c, MergeShapes(c.attr<Shape>("shape"), c.input(0),
                                  "the input must have the shape in attribute 'shape'"));
}

absl::StatusOr<std::vector<Output>> EnsureShapeGrad(const GradContext& c) {
  return std::vector<Output>{ops::EnsureShape(c.scope, c.dy[0], c.op.attr<Shape>("shape"))};
}

absl::StatusOr<std::vector<Output>> IdentityNGrad(const GradContext& c) {
  return std::vector<Output>(c.dy.begin(), c.dy.end());
}

absl::StatusOr<std::vector<Output>> IdentityGrad(const GradContext& c) {
  return std::vector<Output>{ops::Identity(c.scope, c.dy[0])};
}

OpBuilder DefineView(OpRegistry& ops, absl::string_view name, absl::string_view doc) {
  return ops.Define(name)
      .Doc(doc)
      .Input("input: T")
      .Output("output: T")
      .Traits(kView)
      .Shape(IdentityShape)
      .Sharding(JointlyLinearSharding);
}

}  // namespace

void RegisterIdentity(OpRegistry& ops) {
  DefineView(ops, "Identity", "output = input").Attr(kAny).Gradient(IdentityGrad);
  DefineView(ops, "StopGradient", "output = input; gradients treat it as a constant")
      .Attr(kAny)
      .Gradient(ZeroGradients);
  DefineView(ops, "Snapshot", "output = input").Attr("T: type").Gradient(IdentityGrad);
  DefineView(ops, "PreventGradient", "output = input; `message` explains why it has no gradient")
      .Attr("T: type")
      .Attr("message: string = ''")
      .NoGradient("the op exists to prevent a gradient; its attribute 'message' may explain why");
  DefineView(ops, "EnsureShape", "output = input, which must have shape `shape`")
      .Attr("shape: shape")
      .Attr("T: type")
      .Shape(EnsureShapeShape)
      .Gradient(EnsureShapeGrad);
  ops.Define(ops::kIdentityN)
      .Doc("output[i] = input[i]")
      .Input("input: T")
      .Output("output: T")
      .Attr("T: list(type) >= 1")
      .Shape(IdentityNShape)
      .Sharding(IdentityNSharding)
      .Gradient(IdentityNGrad);
}

namespace ops {

Output Identity(const Scope& scope, Output input) { return Apply(scope, "Identity", {input}); }

Output StopGradient(const Scope& scope, Output input) {
  return Apply(scope, "StopGradient", {input});
}

Output Snapshot(const Scope& scope, Output input) { return Apply(scope, "Snapshot", {input}); }

Output PreventGradient(const Scope& scope, Output input, absl::string_view message) {
  return Build(scope, "PreventGradient", {input}).Attr("message", std::string(message)).One();
}

Output EnsureShape(const Scope& scope, Output input, const mirrorflow::Shape& shape) {
  return Build(scope, "EnsureShape", {input}).Attr("shape", shape).One();
}

std::vector<Output> IdentityN(const Scope& scope, absl::Span<const Output> inputs) {
  return OutputsOf(Build(scope, kIdentityN).InputList(inputs).Finish(), inputs.size());
}

}  // namespace ops
}  // namespace mirrorflow
