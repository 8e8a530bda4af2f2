// SPDX-License-Identifier: Apache-2.0
//
// Optimizer updates, which compute new values of a variable and its slots, element by element, from
// a reduced gradient, with TensorFlow's formulas. Rates and decays are inputs because they change
// from step to step. The optimizers in train/optimizers build these ops.
#ifndef MIRRORFLOW_OPS_UPDATE_H_
#define MIRRORFLOW_OPS_UPDATE_H_

#include <vector>

#include "framework/graph/op_registry.h"
#include "framework/graph/scope.h"

namespace mirrorflow {

namespace ops {
// Adam with the scalars that Keras computes outside the update. Only the compiler creates it
// (FuseAdam), so it is among FusedOps().
inline constexpr char kResourceApplyKerasAdam[] = "ResourceApplyKerasAdam";
}  // namespace ops
void DefineKerasAdam(OpRegistry& ops);

}  // namespace mirrorflow

namespace mirrorflow::ops {

// Each update takes scalars and a gradient, all of the variable's dtype (float or double), followed
// by any number of gates, which are bool scalars. If a gate is false, the update writes nothing.
// The option use_locking is TensorFlow's and has no effect.
// Errors:   InvalidArgument if a slot or the gradient does not have the variable's dtype and shape,
//           or a scalar operand is not a scalar.
// Sharding: all operands are replicated; a gradient that is still partial is reduced first.
// Gradient: none.

struct ResourceApplyGradientDescentOptions {
  bool use_locking = false;
  std::vector<Output> gates = {};
};
// ResourceApplyGradientDescent: var -= alpha * delta
Operation ResourceApplyGradientDescent(const Scope& scope, Output var, Output alpha, Output delta,
                                       const ResourceApplyGradientDescentOptions& options = {});

struct ResourceApplyMomentumOptions {
  bool use_locking = false;
  bool use_nesterov = false;
  std::vector<Output> gates = {};
};
// ResourceApplyMomentum:
//   accum = accum * momentum + grad
//   var -= lr * accum                              or, with use_nesterov,
//   var -= lr * grad + lr * momentum * accum
Operation ResourceApplyMomentum(const Scope& scope, Output var, Output accum, Output lr,
                                Output grad, Output momentum,
                                const ResourceApplyMomentumOptions& options = {});

// ResourceApplyKerasMomentum: like ResourceApplyMomentum, but the accumulator includes the learning
// rate.
//   accum = accum * momentum - lr * grad
//   var += accum                                   or, with use_nesterov,
//   var += accum * momentum - lr * grad
Operation ResourceApplyKerasMomentum(const Scope& scope, Output var, Output accum, Output lr,
                                     Output grad, Output momentum,
                                     const ResourceApplyMomentumOptions& options = {});

struct ResourceApplyAdagradOptions {
  bool use_locking = false;
  bool update_slots = true;  // if false, accum is not updated
  std::vector<Output> gates = {};
};
// ResourceApplyAdagrad:
//   accum += grad²
//   var -= lr * grad / sqrt(accum)
// Source:   Duchi et al., Adaptive subgradient methods, 2011.
Operation ResourceApplyAdagrad(const Scope& scope, Output var, Output accum, Output lr, Output grad,
                               const ResourceApplyAdagradOptions& options = {});
// ResourceApplyAdagradV2: like ResourceApplyAdagrad, but var -= lr * grad / (sqrt(accum) +
// epsilon).
Operation ResourceApplyAdagradV2(const Scope& scope, Output var, Output accum, Output lr,
                                 Output epsilon, Output grad,
                                 const ResourceApplyAdagradOptions& options = {});

struct ResourceApplyRMSPropOptions {
  bool use_locking = false;
  std::vector<Output> gates = {};
};
// ResourceApplyRMSProp:
//   ms += (grad² - ms) * (1 - rho)
//   mom = mom * momentum + lr * grad / sqrt(ms + epsilon)
//   var -= mom
// Source:   Hinton, Neural networks for machine learning, lecture 6e.
Operation ResourceApplyRMSProp(const Scope& scope, Output var, Output ms, Output mom, Output lr,
                               Output rho, Output momentum, Output epsilon, Output grad,
                               const ResourceApplyRMSPropOptions& options = {});

// Adam's scalars. In step t, which counts from 1, beta1_power is beta1^t and beta2_power is
// beta2^t.
struct AdamScalars {
  Output beta1_power;
  Output beta2_power;
  Output lr;
  Output beta1;
  Output beta2;
  Output epsilon;
};
struct ResourceApplyAdamOptions {
  bool use_locking = false;
  bool use_nesterov = false;
  std::vector<Output> gates = {};
};
// ResourceApplyAdam:
//   alpha = lr * sqrt(1 - beta2_power) / (1 - beta1_power)
//   m += (grad - m) * (1 - beta1)
//   v += (grad² - v) * (1 - beta2)
//   var -= alpha * m / (sqrt(v) + epsilon)         or, with use_nesterov,
//   var -= alpha * (grad * (1 - beta1) + beta1 * m) / (sqrt(v) + epsilon)
// Source:   Kingma and Ba, Adam: a method for stochastic optimization, section 2, last paragraph.
Operation ResourceApplyAdam(const Scope& scope, Output var, Output m, Output v,
                            const AdamScalars& scalars, Output grad,
                            const ResourceApplyAdamOptions& options = {});

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_UPDATE_H_
