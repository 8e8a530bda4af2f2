// SPDX-License-Identifier: Apache-2.0
//
// Gelu, the activation of transformers. TensorFlow lacks this op, so graph files express Gelu and
// its gradient in terms of TensorFlow's ops.
#ifndef MIRRORFLOW_OPS_GELU_H_
#define MIRRORFLOW_OPS_GELU_H_

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

inline constexpr char kGelu[] = "Gelu";  // for passes that match this op

struct GeluOptions {
  bool approximate = false;
};

// Gelu: x times the cumulative distribution function of the normal distribution at x.
//   y = x * (1 + erf(x / √2)) / 2, or if approximate
//   y = x * (1 + tanh(√(2 / π) * (x + 0.044715 * x³))) / 2
// Shapes:   any, including empty; the result has the same shape.
// Dtypes:   half, bfloat16, float, double.
// Special:  NaN for -infinity and for NaN, as in TensorFlow and PyTorch.
// Gradient: GeluGrad.
// Source:   Hendrycks and Gimpel, "Gaussian error linear units", 2016.
Output Gelu(const Scope& scope, Output features, const GeluOptions& options);
Output Gelu(const Scope& scope, Output features);  // for layers that take an activation

// GeluGrad: `gradients` times the derivative of Gelu at `features`. Linear in `gradients`.
Output GeluGrad(const Scope& scope, Output gradients, Output features,
                const GeluOptions& options = {});

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_GELU_H_
