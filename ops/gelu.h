// SPDX-License-Identifier: Apache-2.0
//
// The activation of transformers. The ops are our own: a file says them in TensorFlow's.
#ifndef MIRRORFLOW_OPS_GELU_H_
#define MIRRORFLOW_OPS_GELU_H_

#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterGelu(OpRegistry& ops);

namespace ops {

struct GeluOptions {
  bool approximate = false;
};

// Gelu: x times the share of the normal distribution that is below x.
//   y = x * (1 + erf(x / √2)) / 2, or if approximate
//   y = x * (1 + tanh(√(2 / π) * (x + 0.044715 * x³))) / 2
// Shapes:   any, kept; may be empty.
// Dtypes:   half, bfloat16, float, double.
// Special:  NaN of -infinity and of NaN, as in TensorFlow and PyTorch.
// Gradient: GeluGrad.
// Source:   Hendrycks and Gimpel, "Gaussian error linear units", 2016.
Output Gelu(const Scope& scope, Output features, const GeluOptions& options);
Output Gelu(const Scope& scope, Output features);  // an activation of layers

// GeluGrad: gradients * dy/dx of Gelu. Linear in `gradients`.
Output GeluGrad(const Scope& scope, Output gradients, Output features,
                const GeluOptions& options = {});

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_GELU_H_
