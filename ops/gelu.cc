// SPDX-License-Identifier: Apache-2.0
#include "ops/gelu.h"

#include <cmath>

#include "ops/binary.h"
#include "ops/constant.h"
#include "ops/registry.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"
#include "ops/unary.h"
#include "ops/unary_math.h"

namespace mirrorflow {
namespace {

using Outputs = absl::StatusOr<std::vector<Output>>;

// Builds the formulas of Gelu and its derivatives at a tensor x from TensorFlow's ops.
class Formulas {
 public:
  Formulas(const Scope& scope, Output x) : s_(scope), x_(x) {}

  Output Number(double value) const { return ops::ScalarConst(s_, x_.dtype(), value); }
  Output Plus(Output a, Output b) const { return ops::AddV2(s_, a, b); }
  Output Minus(Output a, Output b) const { return ops::Sub(s_, a, b); }
  Output Times(Output a, Output b) const { return ops::Mul(s_, a, b); }
  Output Times(double a, Output b) const { return ops::Mul(s_, Number(a), b); }
  Output Squared() const { return ops::Square(s_, x_); }

  // Returns the factor that multiplies x: the normal distribution function or its approximation.
  // Erfc and Sigmoid are also accurate in the tail, where 1 + erf and 1 + tanh cancel.
  Output Cdf(bool approximate) const {
    return approximate ? ops::Sigmoid(s_, Exponent())
                       : Times(0.5, ops::Erfc(s_, Times(-std::sqrt(0.5), x_)));
  }
  // The derivative of Cdf is the normal density or, for the approximation,
  // cdf * (1 - cdf) * ExponentSlope().
  Output NormalDensity() const {
    return Times(1 / std::sqrt(2 * kPi), ops::Exp(s_, Times(-0.5, Squared())));
  }
  Output LogisticDensity(Output cdf) const { return Times(cdf, Minus(Number(1), cdf)); }

  // Return twice the argument of the tanh, and the derivatives of that number.
  Output Exponent() const {
    return Times(x_, Plus(Number(2 * kRoot), Times(2 * kRoot * kCubic, Squared())));
  }
  Output ExponentSlope() const {
    return Plus(Number(2 * kRoot), Times(6 * kRoot * kCubic, Squared()));
  }
  Output ExponentCurvature() const { return Times(12 * kRoot * kCubic, x_); }

  Output Slope(bool approximate) const {
    const Output cdf = Cdf(approximate);
    const Output density =
        approximate ? Times(LogisticDensity(cdf), ExponentSlope()) : NormalDensity();
    return Plus(cdf, Times(x_, density));
  }
  Output Curvature(bool approximate) const {
    if (!approximate) return Times(NormalDensity(), Minus(Number(2), Squared()));
    const Output cdf = Cdf(true), slope = ExponentSlope();
    const Output of_density = Times(Minus(Number(1), Times(2, cdf)), ops::Square(s_, slope));
    return Times(LogisticDensity(cdf),
                 Plus(Times(2, slope), Times(x_, Plus(of_density, ExponentCurvature()))));
  }

 private:
  static constexpr double kPi = 3.14159265358979323846;
  static constexpr double kRoot = 0.79788456080286535588;  // sqrt(2 / pi)
  static constexpr double kCubic = 0.044715;

  const Scope& s_;
  const Output x_;
};

bool IsApproximate(const Node& node) { return node.attr<bool>("approximate"); }

Outputs ExpandGelu(const Scope& s, const Node& op) {
  const Output x = op.input(0);
  return std::vector<Output>{ops::Mul(s, x, Formulas(s, x).Cdf(IsApproximate(op)))};
}

Outputs ExpandGeluGrad(const Scope& s, const Node& op) {
  const Output slope = Formulas(s, op.input(1)).Slope(IsApproximate(op));
  return std::vector<Output>{ops::Mul(s, op.input(0), slope)};
}

Outputs GradientOfGelu(const GradContext& c) {
  return std::vector<Output>{ops::ApplyWithSameAttrs(c, "GeluGrad", {c.dy[0], c.op.input(0)})};
}

Outputs GradientOfGeluGrad(const GradContext& c) {
  const Scope& s = c.scope;
  const Output dy = c.op.input(0), x = c.op.input(1), g = c.dy[0];
  const Output curvature = Formulas(s, x).Curvature(IsApproximate(c.op));
  return std::vector<Output>{ops::ApplyWithSameAttrs(c, "GeluGrad", {g, x}),
                             ops::Mul(s, ops::Mul(s, g, dy), curvature)};
}

constexpr char kApproximate[] = "approximate: bool = false";

}  // namespace

void RegisterGelu(OpRegistry& ops) {
  ops.Define(ops::kGelu)
      .Doc("activations = features * (1 + erf(features / √2)) / 2")
      .Input("features: T")
      .Output("activations: T")
      .Attr("T: {half, bfloat16, float, double}")
      .Attr(kApproximate)
      .Traits(kElementwise | kOwnOp)
      .MaxUlps({6, 6})
      .Shape(UnchangedShape)
      .Sharding(ElementwiseSharding)
      .Expand(ExpandGelu)
      .Gradient(GradientOfGelu);
  ops.Define("GeluGrad")
      .Doc("backprops = gradients * the derivative of Gelu at features")
      .Input("gradients: T")
      .Input("features: T")
      .Output("backprops: T")
      .Attr("T: {half, bfloat16, float, double}")
      .Attr(kApproximate)
      .Traits(kElementwise | kOwnOp)
      .Shape(SameShape)
      .Sharding(LinearInFirstSharding)
      .Expand(ExpandGeluGrad)
      .Gradient(GradientOfGeluGrad);
}

namespace ops {

Output Gelu(const Scope& scope, Output features, const GeluOptions& options) {
  return Build(scope, kGelu, {features}).Attr("approximate", options.approximate).One();
}
Output Gelu(const Scope& scope, Output features) { return Gelu(scope, features, {}); }

Output GeluGrad(const Scope& scope, Output gradients, Output features, const GeluOptions& options) {
  return Build(scope, "GeluGrad", {gradients, features})
      .Attr("approximate", options.approximate)
      .One();
}

}  // namespace ops
}  // namespace mirrorflow
