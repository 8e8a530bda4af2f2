// SPDX-License-Identifier: Apache-2.0
//
// Normalisation layers. BatchNorm normalises over the batch, and behaves differently in training
// and inference; the other layers normalise each example separately.
#ifndef MIRRORFLOW_TRAIN_LAYERS_NORMALIZATION_H_
#define MIRRORFLOW_TRAIN_LAYERS_NORMALIZATION_H_

#include <cstdint>
#include <string>

#include "framework/graph/scope.h"
#include "train/layers/activation.h"

namespace mirrorflow {
namespace layers {

struct BatchNormOptions {
  double momentum = 0.99;
  double epsilon = 1e-3;
  // Whether to normalise by the statistics of each replica's rows, as TensorFlow's MirroredStrategy
  // does, instead of those of the global batch.
  bool per_replica = false;
  std::string name = "batch_norm";
};

// BatchNorm: y = activation((x - mean) / sqrt(variance + epsilon) * gamma + beta) for each channel.
//            In training, mean and variance are those of the batch, and each step that runs the
//            result of Minimize updates the moving averages: moving = moving * momentum + batch *
//            (1 - momentum). The moving variance has Bessel's correction, as in TensorFlow's
//            FusedBatchNormV3 and in PyTorch, but not in Keras 3. In inference, mean and variance
//            are the moving averages.
// Shapes:    x [batch, …, in], of rank 2 to 5; variables gamma, beta, moving_mean and
//            moving_variance, all [in]; the last two are not trainable.
// Errors:    InvalidArgument if `in` is unknown when the graph is built, if momentum is outside [0,
//            1], or if epsilon is negative or not finite.
// Source:    Ioffe and Szegedy, "Batch normalization", 2015; Keras' defaults.
Output BatchNorm(const Scope& scope, Output x, const Activation& activation = nullptr,
                 const BatchNormOptions& options = {});

// BatchNormalization: BatchNorm under Keras' name, without an activation.
inline Output BatchNormalization(const Scope& scope, Output x,
                                 const BatchNormOptions& options = {}) {
  return BatchNorm(scope, x, nullptr, options);
}

struct LayerNormalizationOptions {
  double epsilon = 1e-3;  // Keras' default; PyTorch's is 1e-5
  std::string name = "layer_norm";
};

// LayerNormalization: y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, with mean and
//                     variance over the last dimension.
// Shapes:   x […, width] -> y […, width]; variables gamma, beta [width].
// Errors:   InvalidArgument if `width` is unknown when the graph is built, or if epsilon is
//           negative or not finite.
Output LayerNormalization(const Scope& scope, Output x,
                          const LayerNormalizationOptions& options = {});

struct GroupNormalizationOptions {
  int64_t groups = 32;  // -1: one group per channel (instance normalisation)
  double epsilon = 1e-3;
  bool center = true;  // add beta
  bool scale = true;   // multiply by gamma
  std::string name = "group_normalization";
};

// GroupNormalization: y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, with mean and
//                     variance over all elements of a channel group, separately for each example.
// Shapes:   x [batch, …, channels] -> y of the same shape; variables gamma, beta [channels].
// Errors:   InvalidArgument if a dimension other than the batch is unknown, if the number of
//           channels is not a multiple of `groups`, or if epsilon is negative or not finite.
// Source:   Wu and He, "Group normalization", 2018; Keras' defaults.
Output GroupNormalization(const Scope& scope, Output x,
                          const GroupNormalizationOptions& options = {});

struct RMSNormalizationOptions {
  double epsilon = 1e-6;
  std::string name = "rms_normalization";
};

// RMSNormalization: y = x / sqrt(mean(x²) + epsilon) * scale, with the mean over the last
//                   dimension.
// Shapes:   x […, width] -> y of the same shape; variable scale [width].
// Errors:   InvalidArgument if `width` is unknown, or if epsilon is negative or not finite.
// Source:   Zhang and Sennrich, "Root mean square layer normalization", 2019; Keras' defaults.
Output RMSNormalization(const Scope& scope, Output x, const RMSNormalizationOptions& options = {});

// UnitNormalization: y = x / sqrt(max(sum(x²), 1e-12)), with the sum over the last dimension. A
//                    zero vector remains unchanged.
Output UnitNormalization(const Scope& scope, Output x);

}  // namespace layers
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LAYERS_NORMALIZATION_H_
