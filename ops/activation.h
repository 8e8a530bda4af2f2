// SPDX-License-Identifier: Apache-2.0
//
// Activations other than Relu, Sigmoid and Tanh (unary.h), and their gradient ops.
#ifndef MIRRORFLOW_OPS_ACTIVATION_H_
#define MIRRORFLOW_OPS_ACTIVATION_H_

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

inline constexpr char kRelu6[] = "Relu6";  // for passes that match this op

struct LeakyReluOptions {
  float alpha = 0.2f;  // the slope below 0
};

// Shapes:   any, including empty; the result has the same shape.
// Dtypes:   half, bfloat16, float, double; Relu6 also int32, int64 and uint8.
// Special:  NaN propagates; Softsign of an infinity is NaN, as in TensorFlow.
// Gradient: uses the ops below, except that Softplus uses Sigmoid.
// Source:   Elu: Clevert et al., 2016; Selu: Klambauer et al., 2017.
Output Relu6(const Scope& scope, Output features);  // min(max(x, 0), 6)
Output Elu(const Scope& scope, Output features);    // e^x - 1 for x < 0, else x
Output Selu(const Scope& scope, Output features);   // a scaled Elu that preserves mean and variance
Output Softplus(const Scope& scope, Output features);  // log(1 + e^x)
Output Softsign(const Scope& scope, Output features);  // x / (1 + |x|)
// x for x >= 0, else alpha * x.
Output LeakyRelu(const Scope& scope, Output features, const LeakyReluOptions& options = {});

// Shapes:   both operands and the result have the same shape.
// Errors:   InvalidArgument if the shapes differ.
// Gradient: as in TensorFlow; SoftsignGrad has none. The ops are linear in `gradients`.
Output Relu6Grad(const Scope& scope, Output gradients, Output features);
Output EluGrad(const Scope& scope, Output gradients, Output outputs);
Output SeluGrad(const Scope& scope, Output gradients, Output outputs);
Output SoftplusGrad(const Scope& scope, Output gradients, Output features);
Output SoftsignGrad(const Scope& scope, Output gradients, Output features);
Output LeakyReluGrad(const Scope& scope, Output gradients, Output features,
                     const LeakyReluOptions& options = {});

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_ACTIVATION_H_
