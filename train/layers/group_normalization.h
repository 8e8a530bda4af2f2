// SPDX-License-Identifier: Apache-2.0
//
// Normalisation of each example on its own, so training and inference do not differ.
#ifndef MIRRORFLOW_TRAIN_LAYERS_GROUP_NORMALIZATION_H_
#define MIRRORFLOW_TRAIN_LAYERS_GROUP_NORMALIZATION_H_

#include <cstdint>
#include <string>

#include "framework/graph/scope.h"

namespace mirrorflow {
namespace layers {

struct GroupNormalizationOptions {
  int64_t groups = 32;  // -1: one for each channel (instance normalisation)
  double epsilon = 1e-3;
  bool center = true;  // add beta
  bool scale = true;   // multiply by gamma
  std::string name = "group_normalization";
};

// GroupNormalization: y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, with mean and
//                     variance over the elements of a group of channels of one example.
// Shapes:   x [batch, …, channels] -> the same; variables gamma, beta [channels].
// Errors:   InvalidArgument if a dimension other than the batch is not known, or if the channels
//           are not a multiple of `groups`, or if epsilon is negative or not finite.
// Source:   Wu and He, "Group normalization", 2018; Keras' defaults.
Output GroupNormalization(const Scope& scope, Output x,
                          const GroupNormalizationOptions& options = {});

struct RMSNormalizationOptions {
  double epsilon = 1e-6;
  std::string name = "rms_normalization";
};

// RMSNormalization: y = x / sqrt(mean(x²) + epsilon) * scale, with the mean over the last
//                   dimension.
// Shapes:   x […, width] -> the same; variable scale [width].
// Errors:   InvalidArgument if `width` is not known, or if epsilon is negative or not finite.
// Source:   Zhang and Sennrich, "Root mean square layer normalization", 2019; Keras' defaults.
Output RMSNormalization(const Scope& scope, Output x, const RMSNormalizationOptions& options = {});

// UnitNormalization: y = x / sqrt(sum(x²)), with the sum over the last dimension; 0 for zeros.
Output UnitNormalization(const Scope& scope, Output x);

}  // namespace layers
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LAYERS_GROUP_NORMALIZATION_H_
