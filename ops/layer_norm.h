// SPDX-License-Identifier: Apache-2.0
//
// Normalisation of rows, and its gradient op. The ops are our own: a file says them in
// TensorFlow's.
#ifndef MIRRORFLOW_OPS_LAYER_NORM_H_
#define MIRRORFLOW_OPS_LAYER_NORM_H_

#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterLayerNorm(OpRegistry& ops);

namespace ops {

struct LayerNormOptions {
  float epsilon = 1e-3f;  // Keras' default; PyTorch's is 1e-5
};
struct LayerNormOutputs {
  Output y, mean, inverse_deviation;
};

// LayerNorm: each row less its mean, divided by its standard deviation, scaled and shifted.
//   y = (x - mean) * inverse_deviation * gamma + beta
//   inverse_deviation = 1 / sqrt(variance + epsilon); the variance is that of the row itself
// Shapes:   x […,d], gamma [d], beta [d] -> y […,d], mean […], inverse_deviation […].
// Empty:    rows of no numbers have NaN for mean and deviation.
// Dtypes:   x and y half, bfloat16, float, double; the others float, or double with x.
// Gradient: LayerNormGrad; of all outputs.
// Source:   Ba, Kiros and Hinton, "Layer normalization", 2016.
LayerNormOutputs LayerNorm(const Scope& scope, Output x, Output gamma, Output beta,
                           const LayerNormOptions& options = {});

struct LayerNormGradOutputs {
  Output dx, dgamma, dbeta;
};

// LayerNormGrad: what a gradient `dy` of y makes of x, gamma and beta. Linear in dy.
// Determinism: dgamma and dbeta are sums over rows in an order that the shape alone says.
LayerNormGradOutputs LayerNormGrad(const Scope& scope, Output dy, Output x, Output gamma,
                                   Output mean, Output inverse_deviation);

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_LAYER_NORM_H_
