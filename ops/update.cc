// SPDX-License-Identifier: Apache-2.0
#include "ops/update.h"

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "ops/registry.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"

namespace mirrorflow {
namespace {

// Every input is a handle, the gradient, or a scalar (gates included). The variables and the
// gradient have the same shape and dtype `T`.
absl::Status UpdateShape(ShapeContext& c) {
  const int gradient = c.node().input_index(c.node().op().update_gradient);
  MF_CHECK(gradient >= 0);
  Shape shape = Shape::UnknownRank();
  auto merge = [&](absl::string_view what, int i, const Shape& with) -> absl::Status {
    MF_ASSIGN_OR_RETURN(shape, MergeShapes(shape, with, "shape of the ", what, " in input ", i,
                                           " must match the variable's shape"));
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

struct Row {
  const char* name;
  const char* doc;
  std::vector<const char*> inputs;  // the gates follow them
  const char* attr = nullptr;       // an additional attribute
  const char* gradient = "grad";
};

std::vector<Row> Table() {
  static constexpr char kNesterov[] = "use_nesterov: bool = false";
  static constexpr char kUpdateSlots[] = "update_slots: bool = true";
  return {
      {.name = "ResourceApplyGradientDescent",
       .doc = "var -= alpha * delta",
       .inputs = {"var: resource", "alpha: T", "delta: T"},
       .gradient = "delta"},
      {.name = "ResourceApplyMomentum",
       .doc = "accum = accum * momentum + grad; var -= lr * accum",
       .inputs = {"var: resource", "accum: resource", "lr: T", "grad: T", "momentum: T"},
       .attr = kNesterov},
      {.name = "ResourceApplyKerasMomentum",
       .doc = "accum = accum * momentum - lr * grad; var += accum",
       .inputs = {"var: resource", "accum: resource", "lr: T", "grad: T", "momentum: T"},
       .attr = kNesterov},
      {.name = "ResourceApplyAdagrad",
       .doc = "accum += grad²; var -= lr * grad / sqrt(accum)",
       .inputs = {"var: resource", "accum: resource", "lr: T", "grad: T"},
       .attr = kUpdateSlots},
      {.name = "ResourceApplyAdagradV2",
       .doc = "accum += grad²; var -= lr * grad / (sqrt(accum) + epsilon)",
       .inputs = {"var: resource", "accum: resource", "lr: T", "epsilon: T", "grad: T"},
       .attr = kUpdateSlots},
      {.name = "ResourceApplyRMSProp",
       .doc = "ms is a moving average of grad²; mom = mom * momentum + lr * grad / "
              "sqrt(ms + epsilon); var -= mom",
       .inputs = {"var: resource", "ms: resource", "mom: resource", "lr: T", "rho: T",
                  "momentum: T", "epsilon: T", "grad: T"}},
      {.name = "ResourceApplyAdam",
       .doc = "m and v are moving averages of grad and grad²; "
              "var -= lr * sqrt(1 - beta2_power) / (1 - beta1_power) * m / "
              "(sqrt(v) + epsilon)",
       .inputs = {"var: resource", "m: resource", "v: resource", "beta1_power: T", "beta2_power: T",
                  "lr: T", "beta1: T", "beta2: T", "epsilon: T", "grad: T"},
       .attr = kNesterov},
  };
}

void Define(const Row& row, OpRegistry& ops) {
  OpBuilder op = ops.Define(row.name);
  op.Doc(row.doc).Role(OpRole::kWrite).Traits(kStateful).Update(row.gradient);
  for (const char* input : row.inputs) op.Input(input);
  op.Input("predicate: _gates * bool");
  if (row.attr != nullptr) op.Attr(row.attr);
  op.Attr("T: {half, bfloat16, float, double}")
      .Attr("use_locking: bool = false")
      .Attr("_gates: int >= 0 = 0");
  op.Shape(UpdateShape).Sharding(ReplicatedSharding).NoGradient("a write has no outputs");
}

}  // namespace

void RegisterUpdate(OpRegistry& ops) {
  for (const Row& row : Table()) Define(row, ops);
}

void DefineKerasAdam(OpRegistry& ops) {
  Define({.name = ops::kResourceApplyKerasAdam,
          .doc = "m += (grad - m) * rate1; v += (grad² - v) * rate2; "
                 "var -= m * alpha / (sqrt(v) + epsilon)",
          .inputs = {"var: resource", "m: resource", "v: resource", "alpha: T", "rate1: T",
                     "rate2: T", "epsilon: T", "grad: T"}},
         ops);
}

namespace ops {
namespace {

template <typename Options>
Operation Update(const Scope& scope, absl::string_view op, absl::Span<const Output> inputs,
                 const Options& options) {
  NodeBuilder node = Build(scope, op, inputs).InputList(options.gates);
  node.Attr("use_locking", options.use_locking);
  if constexpr (requires { options.use_nesterov; }) {
    node.Attr("use_nesterov", options.use_nesterov);
  } else if constexpr (requires { options.update_slots; }) {
    node.Attr("update_slots", options.update_slots);
  }
  return std::move(node).Op();
}

}  // namespace

Operation ResourceApplyGradientDescent(const Scope& scope, Output var, Output alpha, Output delta,
                                       const ResourceApplyGradientDescentOptions& options) {
  return Update(scope, "ResourceApplyGradientDescent", {var, alpha, delta}, options);
}

Operation ResourceApplyMomentum(const Scope& scope, Output var, Output accum, Output lr,
                                Output grad, Output momentum,
                                const ResourceApplyMomentumOptions& options) {
  return Update(scope, "ResourceApplyMomentum", {var, accum, lr, grad, momentum}, options);
}

Operation ResourceApplyKerasMomentum(const Scope& scope, Output var, Output accum, Output lr,
                                     Output grad, Output momentum,
                                     const ResourceApplyMomentumOptions& options) {
  return Update(scope, "ResourceApplyKerasMomentum", {var, accum, lr, grad, momentum}, options);
}

Operation ResourceApplyAdagrad(const Scope& scope, Output var, Output accum, Output lr, Output grad,
                               const ResourceApplyAdagradOptions& options) {
  return Update(scope, "ResourceApplyAdagrad", {var, accum, lr, grad}, options);
}

Operation ResourceApplyAdagradV2(const Scope& scope, Output var, Output accum, Output lr,
                                 Output epsilon, Output grad,
                                 const ResourceApplyAdagradOptions& options) {
  return Update(scope, "ResourceApplyAdagradV2", {var, accum, lr, epsilon, grad}, options);
}

Operation ResourceApplyRMSProp(const Scope& scope, Output var, Output ms, Output mom, Output lr,
                               Output rho, Output momentum, Output epsilon, Output grad,
                               const ResourceApplyRMSPropOptions& options) {
  return Update(scope, "ResourceApplyRMSProp", {var, ms, mom, lr, rho, momentum, epsilon, grad},
                options);
}

Operation ResourceApplyAdam(const Scope& scope, Output var, Output m, Output v,
                            const AdamScalars& scalars, Output grad,
                            const ResourceApplyAdamOptions& options) {
  return Update(scope, "ResourceApplyAdam",
                {var, m, v, scalars.beta1_power, scalars.beta2_power, scalars.lr, scalars.beta1,
                 scalars.beta2, scalars.epsilon, grad},
                options);
}

}  // namespace ops
}  // namespace mirrorflow
