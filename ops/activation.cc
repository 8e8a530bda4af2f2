// SPDX-License-Identifier: Apache-2.0
#include "ops/activation.h"

#include "ops/binary.h"
#include "ops/constant.h"
#include "ops/elementwise_rows.h"
#include "ops/registry.h"
#include "ops/select.h"
#include "ops/shape_values.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

constexpr char kAlpha[] = "alpha: float = 0.2";

using S = const Scope&;
using Grads = absl::StatusOr<std::vector<Output>>;

constexpr char kFeatures[] = "features: T", kActivations[] = "activations: T";

constexpr UnaryRow kActivationRows[] = {
    {.name = "Elu",
     .doc = "activations = e^features - 1 for features < 0, else features",
     .gradient = Dx([](S s, Output x, Output y, Output dy) { return ops::EluGrad(s, dy, y); }),
     .input = kFeatures,
     .output = kActivations,
     .max_ulps = {4, 4}},
    {.name = "LeakyRelu",
     .doc = "activations = alpha * features for features < 0, else features",
     .gradient = [](const GradContext& c) -> Grads {
       return std::vector<Output>{
           ops::ApplyWithSameAttrs(c, "LeakyReluGrad", {c.dy[0], c.op.input(0)})};
     },
     .input = kFeatures,
     .output = kActivations,
     .attr = kAlpha},
    {.name = "Relu6",
     .doc = "activations = min(max(features, 0), 6)",
     .dtypes = kNumeric,
     .gradient = Dx([](S s, Output x, Output y, Output dy) { return ops::Relu6Grad(s, dy, y); }),
     .input = kFeatures,
     .output = kActivations},
    {.name = "Selu",
     .doc =
         "activations = scale * alpha * (e^features - 1) for features < 0, else scale * features",
     .gradient = Dx([](S s, Output x, Output y, Output dy) { return ops::SeluGrad(s, dy, y); }),
     .input = kFeatures,
     .output = kActivations,
     .max_ulps = {4, 4}},
    {.name = "Softplus",
     .doc = "activations = log(1 + e^features)",
     .gradient =
         Dx([](S s, Output x, Output y, Output dy) { return ops::Mul(s, dy, ops::Sigmoid(s, x)); }),
     .input = kFeatures,
     .output = kActivations,
     .traits = kNeedsPrecision,
     .max_ulps = {4, 4}},
    {.name = "Softsign",
     .doc = "activations = features / (1 + |features|)",
     .gradient = Dx([](S s, Output x, Output y, Output dy) { return ops::SoftsignGrad(s, dy, x); }),
     .input = kFeatures,
     .output = kActivations,
     .max_ulps = {2, 2}},
};

// A gradient op, backprops = gradients * f'(v), where v is `features` or `outputs`.
struct GradRow {
  const char* name;
  const char* doc;
  const char* dtypes = kFloating;
  GradientFn gradient = nullptr;
  const char* no_gradient = "";
  const char* value = kFeatures;
  const char* attr = nullptr;
};

// Wraps fn(scope, gradients, v, g), which returns the gradients of `gradients` and v. `g` is the
// gradient of backprops.
template <typename Fn>
constexpr GradientFn GradsOfGrad(Fn) {
  return [](const GradContext& c) -> Grads {
    return Fn{}(c.scope, c.op.input(0), c.op.input(1), c.dy[0]);
  };
}

using Pair = std::vector<Output>;

// Returns `value` where `outputs` is negative, else 0. The slope of Elu and Selu depends on the
// output only where the output is negative: there, the slope is the output plus a constant.
Output WhereNegative(S s, Output outputs, Output value) {
  const Output negative = ops::Less(s, outputs, ops::ScalarConst(s, outputs.dtype(), 0));
  return ops::SelectV2(s, negative, value, ops::ZerosLike(s, outputs));
}

constexpr GradRow kGradRows[] = {
    {.name = "EluGrad",
     .doc = "backprops = gradients * (outputs + 1) where outputs < 0, else gradients",
     .gradient = GradsOfGrad([](S s, Output dy, Output y, Output g) {
       return Pair{ops::EluGrad(s, g, y), WhereNegative(s, y, ops::Mul(s, g, dy))};
     }),
     .value = "outputs: T"},
    {.name = "LeakyReluGrad",
     .doc = "backprops = gradients where features > 0, else alpha * gradients",
     .gradient = [](const GradContext& c) -> Grads {
       const Output x = c.op.input(1);
       return Pair{ops::ApplyWithSameAttrs(c, "LeakyReluGrad", {c.dy[0], x}),
                   ops::ZerosLike(c.scope, x)};
     },
     .attr = kAlpha},
    {.name = "Relu6Grad",
     .doc = "backprops = gradients where 0 < features < 6, else 0",
     .dtypes = kNumeric,
     .gradient = GradsOfGrad([](S s, Output dy, Output x, Output g) {
       return Pair{ops::Relu6Grad(s, g, x), ops::ZerosLike(s, x)};
     })},
    {.name = "SeluGrad",
     .doc = "backprops = gradients * (outputs + scale * alpha) where outputs < 0, else "
            "scale * gradients",
     .gradient = GradsOfGrad([](S s, Output dy, Output y, Output g) {
       return Pair{ops::SeluGrad(s, g, y), WhereNegative(s, y, ops::Mul(s, g, dy))};
     }),
     .value = "outputs: T"},
    {.name = "SoftplusGrad",
     .doc = "backprops = gradients / (1 + e^-features)",
     .gradient = GradsOfGrad([](S s, Output dy, Output x, Output g) {
       const Output two = ops::ScalarConst(s, x.dtype(), 2);
       const Output sum =
           ops::AddV2(s, ops::AddV2(s, ops::Exp(s, ops::Neg(s, x)), two), ops::Exp(s, x));
       return Pair{ops::SoftplusGrad(s, g, x), ops::RealDiv(s, ops::Mul(s, g, dy), sum)};
     })},
    {.name = "SoftsignGrad",
     .doc = "backprops = gradients / (1 + |features|)^2",
     .no_gradient = "TensorFlow defines none"},
};

}  // namespace

void RegisterActivation(OpRegistry& ops) {
  RegisterUnaryRows(ops, kActivationRows);
  for (const GradRow& row : kGradRows) {
    OpBuilder op = ops.Define(row.name);
    op.Doc(row.doc).Input("gradients: T").Input(row.value).Output("backprops: T").Attr(row.dtypes);
    if (row.attr != nullptr) op.Attr(row.attr);
    op.Traits(kElementwise).Shape(SameShape).Sharding(LinearInFirstSharding);
    op.Gradient(row.gradient).NoGradient(row.no_gradient);
  }
}

namespace ops {

Output Relu6(const Scope& scope, Output features) { return Apply(scope, "Relu6", {features}); }
Output Elu(const Scope& scope, Output features) { return Apply(scope, "Elu", {features}); }
Output Selu(const Scope& scope, Output features) { return Apply(scope, "Selu", {features}); }
Output Softplus(const Scope& scope, Output features) {
  return Apply(scope, "Softplus", {features});
}
Output Softsign(const Scope& scope, Output features) {
  return Apply(scope, "Softsign", {features});
}
Output LeakyRelu(const Scope& scope, Output features, const LeakyReluOptions& options) {
  return Build(scope, "LeakyRelu", {features}).Attr("alpha", options.alpha).One();
}

Output Relu6Grad(const Scope& scope, Output gradients, Output features) {
  return Apply(scope, "Relu6Grad", {gradients, features});
}
Output EluGrad(const Scope& scope, Output gradients, Output outputs) {
  return Apply(scope, "EluGrad", {gradients, outputs});
}
Output SeluGrad(const Scope& scope, Output gradients, Output outputs) {
  return Apply(scope, "SeluGrad", {gradients, outputs});
}
Output SoftplusGrad(const Scope& scope, Output gradients, Output features) {
  return Apply(scope, "SoftplusGrad", {gradients, features});
}
Output SoftsignGrad(const Scope& scope, Output gradients, Output features) {
  return Apply(scope, "SoftsignGrad", {gradients, features});
}
Output LeakyReluGrad(const Scope& scope, Output gradients, Output features,
                     const LeakyReluOptions& options) {
  return Build(scope, "LeakyReluGrad", {gradients, features}).Attr("alpha", options.alpha).One();
}

}  // namespace ops
}  // namespace mirrorflow
