// SPDX-License-Identifier: Apache-2.0
#include "ops/update.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/registry.h"

namespace mirrorflow {
namespace {

// Every input is a handle, the gradient, or a scalar (gates included). The variables and the
// gradient have the same shape and dtype `T`.
absl::Status UpdateShape(ShapeContext& c) {
  const int gradient = c.node().input_index(c.node().op().update_gradient);
  MF_CHECK(gradient >= 0);
  Shape shape = Shape::UnknownRank();
  auto merge = [&](absl::string_view what, int i, const Shape& with) -> absl::Status {
    absl::StatusOr<Shape> merged = shape.MergeWith(with);
    if (!merged.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("shape of the ", what, " in input ", i,
                                                     " must match the variable's shape; expected ",
                                                     shape.ToString(), ", got ", with.ToString()));
    }
    shape = *std::move(merged);
    return absl::OkStatus();
  };
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (i == gradient) {
      MF_RETURN_IF_ERROR(merge("gradient", i, c.input(i)));
      continue;
    }
    MF_RETURN_IF_ERROR(c.WithRank(i, 0).status());
    if (c.node().input(i).dtype() != DT_RESOURCE) continue;
    const DataType expected = c.attr<DataType>("T"), got = c.handle_dtype(i);
    if (got != DT_INVALID && got != expected) {
      return absl::InvalidArgumentError(absl::StrCat(
          "dtype of the variable in input ", i, " must match the gradient's dtype; expected ",
          DataTypeName(expected), ", got ", DataTypeName(got)));
    }
    MF_RETURN_IF_ERROR(merge("variable", i, c.handle_shape(i)));
  }
  return absl::OkStatus();
}

absl::StatusOr<ShardingRule> UpdateSharding(const ShardContext& c) {
  const std::vector<absl::string_view> terms(c.num_inputs(), "*");
  return ShardingRule{.dims = absl::StrCat(absl::StrJoin(terms, ","), "->")};
}

// Completes an update op with the properties that all updates share. The gates follow the inputs of
// TensorFlow's schema.
void FinishUpdate(OpBuilder op, absl::string_view gradient) {
  op.Input("predicate: _gates * bool")
      .Attr("T: {half, bfloat16, float, double}")
      .Attr("use_locking: bool = false")
      .Attr("_gates: int >= 0 = 0")
      .Role(OpRole::kWrite)
      .Traits(kStateful)
      .Update(gradient)
      .Shape(UpdateShape)
      .Sharding(UpdateSharding)
      .NoGradient("a write has no outputs");
}

}  // namespace

void RegisterUpdate(OpRegistry& ops) {
  FinishUpdate(ops.Define("ResourceApplyGradientDescent")
                   .Doc("var -= alpha * delta")
                   .Input("var: resource")
                   .Input("alpha: T")
                   .Input("delta: T"),
               "delta");
  FinishUpdate(ops.Define("ResourceApplyMomentum")
                   .Doc("accum = accum * momentum + grad; var -= lr * accum")
                   .Input("var: resource")
                   .Input("accum: resource")
                   .Input("lr: T")
                   .Input("grad: T")
                   .Input("momentum: T")
                   .Attr("use_nesterov: bool = false"),
               "grad");
  FinishUpdate(ops.Define("ResourceApplyKerasMomentum")
                   .Doc("accum = accum * momentum - lr * grad; var += accum")
                   .Input("var: resource")
                   .Input("accum: resource")
                   .Input("lr: T")
                   .Input("grad: T")
                   .Input("momentum: T")
                   .Attr("use_nesterov: bool = false"),
               "grad");
  FinishUpdate(ops.Define("ResourceApplyAdagrad")
                   .Doc("accum += grad²; var -= lr * grad / sqrt(accum)")
                   .Input("var: resource")
                   .Input("accum: resource")
                   .Input("lr: T")
                   .Input("grad: T")
                   .Attr("update_slots: bool = true"),
               "grad");
  FinishUpdate(ops.Define("ResourceApplyAdagradV2")
                   .Doc("accum += grad²; var -= lr * grad / (sqrt(accum) + epsilon)")
                   .Input("var: resource")
                   .Input("accum: resource")
                   .Input("lr: T")
                   .Input("epsilon: T")
                   .Input("grad: T")
                   .Attr("update_slots: bool = true"),
               "grad");
  FinishUpdate(ops.Define("ResourceApplyRMSProp")
                   .Doc("ms is a moving average of grad²; mom = mom * momentum + lr * grad / "
                        "sqrt(ms + epsilon); var -= mom")
                   .Input("var: resource")
                   .Input("ms: resource")
                   .Input("mom: resource")
                   .Input("lr: T")
                   .Input("rho: T")
                   .Input("momentum: T")
                   .Input("epsilon: T")
                   .Input("grad: T"),
               "grad");
  FinishUpdate(ops.Define("ResourceApplyAdam")
                   .Doc("m and v are moving averages of grad and grad²; "
                        "var -= lr * sqrt(1 - beta2_power) / (1 - beta1_power) * m / "
                        "(sqrt(v) + epsilon)")
                   .Input("var: resource")
                   .Input("m: resource")
                   .Input("v: resource")
                   .Input("beta1_power: T")
                   .Input("beta2_power: T")
                   .Input("lr: T")
                   .Input("beta1: T")
                   .Input("beta2: T")
                   .Input("epsilon: T")
                   .Input("grad: T")
                   .Attr("use_nesterov: bool = false"),
               "grad");
}

namespace ops {
namespace {

// Starts an update of `inputs` and `gates`; the caller adds further attributes.
NodeBuilder Update(const Scope& scope, absl::string_view op, absl::Span<const Output> inputs,
                   absl::Span<const Output> gates, bool use_locking) {
  return Build(scope, op, inputs).InputList(gates).Attr("use_locking", use_locking);
}

}  // namespace

Operation ResourceApplyGradientDescent(const Scope& scope, Output var, Output alpha, Output delta,
                                       const ResourceApplyGradientDescentOptions& options) {
  return Update(scope, "ResourceApplyGradientDescent", {var, alpha, delta}, options.gates,
                options.use_locking)
      .Op();
}

Operation ResourceApplyMomentum(const Scope& scope, Output var, Output accum, Output lr,
                                Output grad, Output momentum,
                                const ResourceApplyMomentumOptions& options) {
  return Update(scope, "ResourceApplyMomentum", {var, accum, lr, grad, momentum}, options.gates,
                options.use_locking)
      .Attr("use_nesterov", options.use_nesterov)
      .Op();
}

Operation ResourceApplyKerasMomentum(const Scope& scope, Output var, Output accum, Output lr,
                                     Output grad, Output momentum,
                                     const ResourceApplyMomentumOptions& options) {
  return Update(scope, "ResourceApplyKerasMomentum", {var, accum, lr, grad, momentum},
                options.gates, options.use_locking)
      .Attr("use_nesterov", options.use_nesterov)
      .Op();
}

Operation ResourceApplyAdagrad(const Scope& scope, Output var, Output accum, Output lr, Output grad,
                               const ResourceApplyAdagradOptions& options) {
  return Update(scope, "ResourceApplyAdagrad", {var, accum, lr, grad}, options.gates,
                options.use_locking)
      .Attr("update_slots", options.update_slots)
      .Op();
}

Operation ResourceApplyAdagradV2(const Scope& scope, Output var, Output accum, Output lr,
                                 Output epsilon, Output grad,
                                 const ResourceApplyAdagradOptions& options) {
  return Update(scope, "ResourceApplyAdagradV2", {var, accum, lr, epsilon, grad}, options.gates,
                options.use_locking)
      .Attr("update_slots", options.update_slots)
      .Op();
}

Operation ResourceApplyRMSProp(const Scope& scope, Output var, Output ms, Output mom, Output lr,
                               Output rho, Output momentum, Output epsilon, Output grad,
                               const ResourceApplyRMSPropOptions& options) {
  return Update(scope, "ResourceApplyRMSProp", {var, ms, mom, lr, rho, momentum, epsilon, grad},
                options.gates, options.use_locking)
      .Op();
}

Operation ResourceApplyAdam(const Scope& scope, Output var, Output m, Output v,
                            const AdamScalars& scalars, Output grad,
                            const ResourceApplyAdamOptions& options) {
  return Update(scope, "ResourceApplyAdam",
                {var, m, v, scalars.beta1_power, scalars.beta2_power, scalars.lr, scalars.beta1,
                 scalars.beta2, scalars.epsilon, grad},
                options.gates, options.use_locking)
      .Attr("use_nesterov", options.use_nesterov)
      .Op();
}

}  // namespace ops
}  // namespace mirrorflow
