// SPDX-License-Identifier: Apache-2.0
//
// Layer normalisation and its gradient op. TensorFlow lacks both ops, so graph files express them
// in terms of TensorFlow's ops.
#ifndef MIRRORFLOW_OPS_LAYER_NORM_H_
#define MIRRORFLOW_OPS_LAYER_NORM_H_

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

struct LayerNormOptions {
  float epsilon = 1e-3f;  // Keras' default; PyTorch's is 1e-5
};
struct LayerNormOutputs {
  Output y, mean, inverse_deviation;
};

// LayerNorm: each row minus its mean, divided by its standard deviation, scaled and shifted.
//   y = (x - mean) * inverse_deviation * gamma + beta
//   inverse_deviation = 1 / sqrt(variance + epsilon), without Bessel's correction
// Shapes:   x […,d], gamma [d], beta [d] -> y […,d], mean […], inverse_deviation […].
// Empty:    for rows without elements, the mean and the deviation are NaN.
// Dtypes:   half, bfloat16, float, double for x and y; all other tensors are float, or double if x
//           is.
// Errors:   InvalidArgument if gamma or beta does not have d elements.
// Gradient: LayerNormGrad; all outputs have gradients.
// Source:   Ba, Kiros and Hinton, "Layer normalization", 2016.
LayerNormOutputs LayerNorm(const Scope& scope, Output x, Output gamma, Output beta,
                           const LayerNormOptions& options = {});

struct LayerNormGradOutputs {
  Output dx, dgamma, dbeta;
};

// LayerNormGrad: the gradients of x, gamma and beta, given the gradient `dy` of y. Linear in dy.
// Determinism: dgamma and dbeta are sums over the rows, in an order that depends only on the shape.
LayerNormGradOutputs LayerNormGrad(const Scope& scope, Output dy, Output x, Output gamma,
                                   Output mean, Output inverse_deviation);

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_LAYER_NORM_H_
