// SPDX-License-Identifier: Apache-2.0
//
// Batch normalisation and its gradient op.
#ifndef MIRRORFLOW_OPS_BATCH_NORM_H_
#define MIRRORFLOW_OPS_BATCH_NORM_H_

#include <string>

#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterBatchNorm(OpRegistry& ops);

namespace ops {

// The attribute that says of which rows the statistics are under a strategy: those of the global
// batch (if it is missing), or, if it is kPerReplicaBatchNorm, those of each replica.
inline constexpr char kBatchNormAttr[] = "_batch_norm";
inline constexpr char kPerReplicaBatchNorm[] = "per_replica";

struct FusedBatchNormV3Options {
  float epsilon = 1e-4f;
  float exponential_avg_factor = 1;
  std::string data_format = "NHWC";  // or "NCHW", "NDHWC", "NCDHW"
  bool is_training = true;
  bool per_replica = false;
};
struct FusedBatchNormV3Outputs {
  Output y, batch_mean, batch_variance, reserve_space_1, reserve_space_2, reserve_space_3;
};

// FusedBatchNormV3: each channel less its mean, divided by its standard deviation.
//   y = (x - m) / sqrt(v + epsilon) * scale + offset
//   In training m and v are mean and variance of the channel in x, which are also reserve_space_1
//   and 2; with Bessel's correction v' = v * n / max(n - 1, 1) for n numbers a channel,
//     batch_mean     = mean     * (1 - factor) + m  * factor,
//     batch_variance = variance * (1 - factor) + v' * factor, factor = exponential_avg_factor.
//   Else m and v are inputs `mean` and `variance`, and outputs 1 and 2 repeat them.
// Shapes:   x [N,H,W,C] (or as data_format says), the others [C]; mean and variance may be empty in
//           training with factor 1. y as x, outputs 1 to 4 [C], reserve_space_3 a scalar 0.
// Empty:    in training on no rows outputs 1 and 2 are NaN and the reserved ones 0.
// Dtypes:   x and y half, bfloat16, float, double; the others float, or double with x. Sums are
//           double.
// Sharding: the statistics are those of the global batch: in training the op becomes sums over the
//           replicas and itself out of training. If per_replica (what TensorFlow's MirroredStrategy
//           does) each replica normalises its rows by their own statistics; outputs 1 and 2 are the
//           means over the replicas, weighted by rows, and the reserved ones a state of each
//           replica that only the gradient accepts.
// Gradient: FusedBatchNormGradV3, of y alone; none of mean and variance, as in TensorFlow.
FusedBatchNormV3Outputs FusedBatchNormV3(const Scope& scope, Output x, Output scale, Output offset,
                                         Output mean, Output variance,
                                         const FusedBatchNormV3Options& options = {});

struct FusedBatchNormGradV3Options {
  float epsilon = 1e-4f;
  std::string data_format = "NHWC";
  bool is_training = true;
  bool per_replica = false;  // as the op whose gradient it is
};
struct FusedBatchNormGradV3Outputs {
  Output x_backprop, scale_backprop, offset_backprop;
};

// FusedBatchNormGradV3: the gradients of x, scale and offset. reserve_space_1 and 2 are the m and v
// above; reserve_space_3 says nothing.
FusedBatchNormGradV3Outputs FusedBatchNormGradV3(const Scope& scope, Output y_backprop, Output x,
                                                 Output scale, Output reserve_space_1,
                                                 Output reserve_space_2, Output reserve_space_3,
                                                 const FusedBatchNormGradV3Options& options = {});

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_BATCH_NORM_H_
