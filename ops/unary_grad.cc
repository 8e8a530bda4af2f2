// SPDX-License-Identifier: Apache-2.0
#include "ops/unary_grad.h"

#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/binary.h"
#include "ops/constant.h"
#include "ops/registry.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

struct Row {
  const char* name;
  const char* doc;
  GradientFn gradient;
};

// Returns the gradients of dx = f(y, dy) with respect to y and dy, given the gradient of dx.
template <typename Fn>
constexpr GradientFn Grads(Fn) {
  return [](const GradContext& c) -> absl::StatusOr<std::vector<Output>> {
    return Fn{}(c.scope, c.op.input(0), c.op.input(1), c.op.output(0), c.dy[0]);
  };
}

using S = const Scope&;
using Pair = std::vector<Output>;

Output Times(S s, double factor, Output x) {
  return ops::Mul(s, ops::ScalarConst(s, x.dtype(), factor), x);
}

constexpr Row kRows[] = {
    {.name = "ReciprocalGrad",
     .doc = "z = -dy * y^2, where y = 1 / x",
     .gradient = Grads([](S s, Output y, Output dy, Output z, Output g) {
       return Pair{ops::Mul(s, Times(s, -2, g), ops::Mul(s, dy, y)), ops::ReciprocalGrad(s, y, g)};
     })},
    {.name = "RsqrtGrad",
     .doc = "z = -dy * y^3 / 2, where y = 1 / sqrt(x)",
     .gradient = Grads([](S s, Output y, Output dy, Output z, Output g) {
       return Pair{ops::Mul(s, ops::Mul(s, Times(s, -1.5, g), dy), ops::Square(s, y)),
                   ops::RsqrtGrad(s, y, g)};
     })},
    {.name = "SigmoidGrad",
     .doc = "z = dy * y * (1 - y), where y = sigmoid(x)",
     .gradient = Grads([](S s, Output y, Output dy, Output z, Output g) {
       const Output g_dy = ops::Mul(s, g, dy);
       return Pair{ops::Sub(s, g_dy, ops::Mul(s, Times(s, 2, g_dy), y)), ops::SigmoidGrad(s, y, g)};
     })},
    {.name = "SqrtGrad",
     .doc = "z = dy / (2 * y), where y = sqrt(x)",
     .gradient = Grads([](S s, Output y, Output dy, Output z, Output g) {
       const Output g_y = ops::RealDiv(s, g, y);
       return Pair{ops::Mul(s, ops::Neg(s, g_y), z), Times(s, 0.5, g_y)};
     })},
    {.name = "TanhGrad",
     .doc = "z = dy * (1 - y^2), where y = tanh(x)",
     .gradient = Grads([](S s, Output y, Output dy, Output z, Output g) {
       return Pair{ops::Mul(s, Times(s, -2, g), ops::Mul(s, dy, y)), ops::TanhGrad(s, y, g)};
     })},
};

// The rule for an op that is linear in operand `gradient`.
template <int gradient>
absl::StatusOr<ShardingRule> LinearInGradient(const ShardContext& c) {
  MF_ASSIGN_OR_RETURN(ShardingRule rule, MultilinearSharding(c));
  rule.linear_inputs = {gradient};
  return rule;
}

absl::StatusOr<std::vector<Output>> ReluGradGrad(const GradContext& c) {
  const Output features = c.op.input(1);
  return std::vector<Output>{ops::ReluGrad(c.scope, c.dy[0], features),
                             ops::ZerosLike(c.scope, features)};
}

}  // namespace

void RegisterUnaryGrad(OpRegistry& ops) {
  ops.Define("ReluGrad")
      .Doc("backprops = gradients where features > 0, else 0")
      .Input("gradients: T")
      .Input("features: T")
      .Output("backprops: T")
      .Attr("T: {half, bfloat16, float, double, int32, int64, uint8}")
      .Traits(kElementwise)
      .Shape(SameShape)
      .Sharding(LinearInGradient<0>)
      .Gradient(ReluGradGrad);
  for (const Row& row : kRows) {
    ops.Define(row.name)
        .Doc(row.doc)
        .Input("y: T")
        .Input("dy: T")
        .Output("z: T")
        .Attr("T: {half, bfloat16, float, double}")
        .Traits(kElementwise)
        .Shape(SameShape)
        .Sharding(LinearInGradient<1>)
        .Gradient(row.gradient);
  }
}

namespace ops {

Output ReluGrad(const Scope& scope, Output gradients, Output features) {
  return Apply(scope, "ReluGrad", {gradients, features});
}
Output TanhGrad(const Scope& scope, Output y, Output dy) {
  return Apply(scope, "TanhGrad", {y, dy});
}
Output SigmoidGrad(const Scope& scope, Output y, Output dy) {
  return Apply(scope, "SigmoidGrad", {y, dy});
}
Output SqrtGrad(const Scope& scope, Output y, Output dy) {
  return Apply(scope, "SqrtGrad", {y, dy});
}
Output RsqrtGrad(const Scope& scope, Output y, Output dy) {
  return Apply(scope, "RsqrtGrad", {y, dy});
}
Output ReciprocalGrad(const Scope& scope, Output y, Output dy) {
  return Apply(scope, "ReciprocalGrad", {y, dy});
}

}  // namespace ops
}  // namespace mirrorflow
