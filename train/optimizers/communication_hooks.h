// SPDX-License-Identifier: Apache-2.0
//
// Communication hooks: functions that reduce gradients over the replicas in place of the default
// all-reduce. They move fewer bytes, or combine the replicas' gradients in another way. Except for
// Adasum, they correspond to PyTorch's hooks of the same names
// (torch.distributed.algorithms.ddp_comm_hooks).
//
//   train = Momentum({.learning_rate = 0.1})
//               .Minimize(scope, loss, {.reduce = hooks::PowerSGD({.start_powersgd_iter = 100})});
//
// The loss is the mean over the global batch, so a gradient is the sum of one part from each
// replica. PyTorch instead averages the gradients of local means: if all replicas have the same
// number of rows, a replica's part here is its gradient in PyTorch divided by the number of
// replicas. In the formulas below, x_r is replica r's part, e_r its error (initially zero), and Σ a
// sum over all replicas. Only the sums need communication.
//
// The errors are optimizer state, stored as parts of a sum (GradientReduction::State). A checkpoint
// contains Σ e_r, which replica 0 receives when the checkpoint is loaded, so no part of a gradient
// is lost even if the number of replicas changes.
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_COMMUNICATION_HOOKS_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_COMMUNICATION_HOOKS_H_

#include <cstdint>

#include "train/optimizers/gradient_reduction.h"

namespace mirrorflow {
namespace hooks {

// AllReduce: Σ x_r, as without a hook (allreduce_hook).
GradientReducer AllReduce();

struct CompressOptions {
  // Whether to add the rounding error of each gradient to the next one. PyTorch's hooks do not.
  bool use_error_feedback = true;
};

// Bf16Compress: Σ c_r, where c_r = bfloat16(x_r + e_r); then e_r = x_r + e_r - c_r. Moves half the
// bytes of a float all-reduce (bf16_compress_hook).
// Source: Seide et al., "1-bit stochastic gradient descent and its application to data-parallel
// distributed training of speech DNNs", 2014 (error feedback).
GradientReducer Bf16Compress(const CompressOptions& options = {});

// Fp16Compress: Bf16Compress with half instead of bfloat16, which rounds less but overflows above
// 65504: larger gradients become infinite, as in PyTorch (fp16_compress_hook).
GradientReducer Fp16Compress(const CompressOptions& options = {});

// The fields match those of PyTorch's PowerSGDState.
struct PowerSGDOptions {
  int64_t matrix_approximation_rank = 1;  // the rank r below; at least 1
  // Number of initial steps that use an all-reduce instead, because early gradients are the hardest
  // to approximate. 0 compresses from the first step, without a branch in the graph.
  int64_t start_powersgd_iter = 1000;
  // A gradient is compressed only if that saves enough elements:
  // (rows + columns) * matrix_approximation_rank * min_compression_rate < rows * columns.
  double min_compression_rate = 2;
  // Whether to add the approximation error of each gradient to the next one.
  bool use_error_feedback = true;
  // Whether to start each step from the last step's factor Q instead of a random one. With neither
  // error feedback nor warm start, the approximation does not improve from step to step.
  bool warm_start = true;
  // Added to the norm of a column before the column is divided by it. A column of zeros remains
  // zero even if this is 0.
  double orthogonalization_epsilon = 0;
};

// PowerSGD: reduces a rank-r approximation of each gradient, computed by one step of the power
// method. A gradient of shape [..., m] is treated as a matrix M_r = x_r + e_r with n rows and m
// columns; a gradient of shape [m] is not compressed.
//   P = orthogonalize(Σ M_r Q)      n×r, Q is orthogonal
//   Q = Σ M_rᵀ P                    m×r
//   the reduced gradient is P Qᵀ, and e_r = M_r - P (M_rᵀ P)ᵀ.
// The next step starts from Q; a column of Q that is zero keeps its previous value instead. PyTorch
// uses e_r = M_r - P Qᵀ / (number of replicas). Both errors have the same sum, and only the sum
// matters: it determines every replica's next P and Q. The form used here keeps errors from growing
// when the replicas' gradients differ.
// On one replica, the result equals that of PyTorch's hook with one rank. Moves (n + m) r elements
// instead of n m.
// Errors: InvalidArgument if the rank is less than 1, or another option is negative.
// Source: Vogels, Karimireddy and Jaggi, "PowerSGD: practical low-rank gradient compression for
// distributed optimization", 2019.
GradientReducer PowerSGD(const PowerSGDOptions& options = {});

// Adasum: combines the replicas' gradients in pairs, neighbours first, as a binary tree over the
// ranks. For the gradients a and b of two subtrees, with dot products taken per variable,
//   adasum(a, b) = (1 - a·b / (2 a·a)) a + (1 - a·b / (2 b·b)) b,
// which is the mean of equal gradients and the sum of orthogonal ones. A replica's gradient is
// N x_r, where N is the number of replicas: the gradient of the mean loss over its own rows, if all
// replicas have the same number of rows. A replica without a partner (if N is not a power of two)
// keeps its gradient, and so does one whose partner's gradient is zero. With one replica, the
// gradient is unchanged; otherwise, the result depends on N. A reduce-scatter gives each replica an
// equal shard of every replica's gradient; for this, each replica receives N - 1 times the
// variable's bytes. An all-gather then collects the shards of the result.
// Source: Maleki et al., "Scaling distributed training with adaptive summation", 2020 (Horovod's
// op=Adasum).
GradientReducer Adasum();

}  // namespace hooks
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_COMMUNICATION_HOOKS_H_
