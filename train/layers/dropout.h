// SPDX-License-Identifier: Apache-2.0
//
// Layers that add noise to their input in training and return it unchanged in inference. A graph is
// built in its training form; ForInference (train/inference.h) removes the noise. There is no
// `training` argument. The random numbers depend on the session's seed and step, but not on the
// number of replicas.
#ifndef MIRRORFLOW_TRAIN_LAYERS_DROPOUT_H_
#define MIRRORFLOW_TRAIN_LAYERS_DROPOUT_H_

#include "framework/graph/scope.h"

namespace mirrorflow {
namespace layers {

// Dropout: sets each element to zero with probability `rate` and multiplies the others by 1 / (1 -
// rate).
// Errors:  InvalidArgument unless 0 <= rate < 1.
Output Dropout(const Scope& scope, Output x, double rate);

// SpatialDropout1D, …: like Dropout, but drops whole channels of sequences [batch, n, channels],
//                      images [batch, height, width, channels] and volumes [batch, depth, height,
//                      width, channels].
// Errors:  InvalidArgument unless 0 <= rate < 1, if x has a different rank, or if the number of
//          channels is unknown.
// Source:  Tompson et al., "Efficient object localization using convolutional networks", 2015.
Output SpatialDropout1D(const Scope& scope, Output x, double rate);
Output SpatialDropout2D(const Scope& scope, Output x, double rate);
Output SpatialDropout3D(const Scope& scope, Output x, double rate);

// GaussianNoise: y = x + stddev * noise, with standard normal noise.
// Errors:  InvalidArgument if stddev is negative or not finite.
Output GaussianNoise(const Scope& scope, Output x, double stddev);

// GaussianDropout: y = x * (1 + sqrt(rate / (1 - rate)) * noise), with standard normal noise. As
//                  in Dropout, the expected value of y is x.
// Errors:  InvalidArgument unless 0 <= rate < 1.
// Source:  Srivastava et al., "Dropout", 2014.
Output GaussianDropout(const Scope& scope, Output x, double rate);

}  // namespace layers
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LAYERS_DROPOUT_H_
