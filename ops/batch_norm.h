// SPDX-License-Identifier: Apache-2.0
//
// Batch normalisation and its gradient op.
#ifndef MIRRORFLOW_OPS_BATCH_NORM_H_
#define MIRRORFLOW_OPS_BATCH_NORM_H_

#include <string>

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

inline constexpr char kFusedBatchNormV3[] = "FusedBatchNormV3";  // for passes that match this op

// The attribute that selects the rows that the statistics cover under a strategy. Without it, they
// cover the global batch; if its value is kPerReplicaBatchNorm, they cover each replica's rows
// separately. FusedBatchNormV3Options::per_replica sets it.
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

// FusedBatchNormV3: each channel minus its mean, divided by its standard deviation.
//   y = (x - m) / sqrt(v + epsilon) * scale + offset
//   In training, m and v are the mean and variance of the channel in x; reserve_space_1 and 2
//   return them. With Bessel's correction v' = v * n / max(n - 1, 1), for n elements per channel,
//     batch_mean     = mean     * (1 - factor) + m  * factor,
//     batch_variance = variance * (1 - factor) + v' * factor, factor = exponential_avg_factor.
//   In inference, m and v are the inputs `mean` and `variance`, and outputs 1 and 2 repeat them.
// Shapes:   x [N,H,W,C] (or according to data_format), the other inputs [C]; mean and variance may
//           be empty in training with factor 1. y has the shape of x, outputs 1 to 4 are [C], and
//           reserve_space_3 is a scalar 0.
// Empty:    when training on 0 rows, outputs 1 and 2 are NaN and the reserved outputs are 0.
// Dtypes:   half, bfloat16, float, double for x and y; all other tensors are float, or double if x
//           is. Sums are accumulated in double precision.
// Errors:   InvalidArgument if a vector does not have one element per channel; Unimplemented for a
//           gradient of any output other than y.
// Sharding: the statistics cover the global batch: in training, the compiler replaces the op with
//           sums over the replicas and the same op in inference mode. With per_replica, as in
//           TensorFlow's MirroredStrategy, each replica normalises its rows by their own
//           statistics. Outputs 1 and 2 are then the means over the replicas, weighted by rows; the
//           reserved outputs are per-replica state that only the gradient op accepts.
// Gradient: FusedBatchNormGradV3, for y only; mean and variance have no gradient, as in TensorFlow.
FusedBatchNormV3Outputs FusedBatchNormV3(const Scope& scope, Output x, Output scale, Output offset,
                                         Output mean, Output variance,
                                         const FusedBatchNormV3Options& options = {});

struct FusedBatchNormGradV3Options {
  float epsilon = 1e-4f;
  std::string data_format = "NHWC";
  bool is_training = true;
  bool per_replica = false;  // as in the forward op
};
struct FusedBatchNormGradV3Outputs {
  Output x_backprop, scale_backprop, offset_backprop;
};

// FusedBatchNormGradV3: the gradients of x, scale and offset. reserve_space_1 and 2 are
// FusedBatchNormV3's m and v; reserve_space_3 is ignored.
FusedBatchNormGradV3Outputs FusedBatchNormGradV3(const Scope& scope, Output y_backprop, Output x,
                                                 Output scale, Output reserve_space_1,
                                                 Output reserve_space_2, Output reserve_space_3,
                                                 const FusedBatchNormGradV3Options& options = {});

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_BATCH_NORM_H_
