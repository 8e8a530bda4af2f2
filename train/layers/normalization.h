// SPDX-License-Identifier: Apache-2.0
//
// Normalisation layers. BatchNorm normalises over the batch in training, and by moving averages in
// inference (ForInference). The other layers normalise each example separately, in the same way in
// training and inference.
#ifndef MIRRORFLOW_TRAIN_LAYERS_NORMALIZATION_H_
#define MIRRORFLOW_TRAIN_LAYERS_NORMALIZATION_H_

#include <cstdint>
#include <string>

#include "framework/graph/scope.h"
#include "train/layers/activation.h"

namespace mirrorflow {
namespace layers {

struct BatchNormOptions {
  double momentum = 0.99;  // as in Keras; PyTorch's momentum is 1 - momentum
  double epsilon = 1e-3;
  // If false, mean and variance are those of the global batch, as in a synchronised batch
  // normalisation. If true, each replica uses those of its own rows, as in TensorFlow's
  // MirroredStrategy.
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
// Errors:    InvalidArgument if x has a different rank, if `in` is unknown, if momentum is outside
//            [0, 1], or if epsilon is negative or not finite. Unimplemented if a Shared applies it
//            more than once.
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
// Errors:   InvalidArgument if `width` is unknown, or if epsilon is negative or not finite.
Output LayerNormalization(const Scope& scope, Output x,
                          const LayerNormalizationOptions& options = {});

struct GroupNormalizationOptions {
  int64_t groups = 32;  // -1: one group per channel (instance normalisation)
  double epsilon = 1e-3;
  bool center = true;  // whether to add beta
  bool scale = true;   // whether to multiply by gamma
  std::string name = "group_normalization";
};

// GroupNormalization: splits the channels into groups of consecutive channels, and computes y = (x
//                     - mean) / sqrt(variance + epsilon) * gamma + beta, with mean and variance
//                     over all elements of one group in one example.
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
