// SPDX-License-Identifier: Apache-2.0
//
// Communication hooks: reductions of gradients that move fewer bytes than an all-reduce, or combine
// the replicas' gradients in another way. They are PyTorch's hooks of the same names
// (torch.distributed.algorithms.ddp_comm_hooks), and Adasum.
//
//   train = Momentum({.learning_rate = 0.1})
//               .Minimize(scope, loss, {.reduce = hooks::PowerSGD({.start_powersgd_iter = 100})});
//
// The loss is the mean of the global batch, so the replicas' parts of a gradient are added up where
// PyTorch averages gradients of local means: part = gradient of PyTorch's replica / number of
// replicas. In formulas below, x_r is the part of replica r, e_r its error (zeros at first) and Σ a
// sum over all replicas, the only communication.
//
// Errors are the optimizer's state. They are stored as the parts of a sum (GradientReduction::
// State): a checkpoint contains Σ e_r, which replica 0 has after loading it. No part of a gradient
// is lost, whatever the number of replicas before and after.
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_COMMUNICATION_HOOKS_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_COMMUNICATION_HOOKS_H_

#include <cstdint>

#include "train/optimizers/gradient_reduction.h"

namespace mirrorflow {
namespace hooks {

// AllReduce: Σ x_r, as without a hook (allreduce_hook).
GradientReducer AllReduce();

struct CompressOptions {
  // Adds to the next gradient what rounding took from this one. PyTorch's hooks do not.
  bool use_error_feedback = true;
};

// Bf16Compress: Σ c_r, where c_r = bfloat16(x_r + e_r); then e_r = x_r + e_r - c_r. Half of the
// bytes of an all-reduce (bf16_compress_hook).
// Source: Seide et al., "1-bit stochastic gradient descent and its application to data-parallel
// distributed training of speech DNNs", 2014 (error feedback).
GradientReducer Bf16Compress(const CompressOptions& options = {});

// Fp16Compress: the same with half, which rounds less and reaches only to 65504: the hook makes a
// larger gradient infinite, as PyTorch's does (fp16_compress_hook).
GradientReducer Fp16Compress(const CompressOptions& options = {});

// The fields are those of PyTorch's PowerSGDState.
struct PowerSGDOptions {
  int64_t matrix_approximation_rank = 1;
  // The steps before the first compression, which use an all-reduce: early gradients are the
  // hardest to approximate. 0: compress from the first step, without a branch in the graph.
  int64_t start_powersgd_iter = 1000;
  // Gradients for which fewer elements would be saved are not compressed:
  // (rows + columns) * rank * min_compression_rate < rows * columns must hold.
  double min_compression_rate = 2;
  // Adds to the next gradient what the approximation lost.
  bool use_error_feedback = true;
  // Starts each step from the last step's factor instead of a random one. Without error feedback
  // and warm start the approximation does not get better over the steps.
  bool warm_start = true;
  // Added to the norm of a column before the column is divided by it. A column of zeros stays zero
  // even if this is 0.
  double orthogonalization_epsilon = 0;
};

// PowerSGD: an approximation of low rank r, by one step of the power method. A gradient of shape
// [..., m] is a matrix M_r = x_r + e_r of n rows and m columns; one of shape [m] is not compressed.
//   P = orthogonalize(Σ M_r Q)      n×r, Q is orthogonal
//   Q = Σ M_rᵀ P                    m×r
//   the reduced gradient is P Qᵀ, and e_r = M_r - P (M_rᵀ P)ᵀ.
// The next step starts from Q, except where a column is zero: it keeps that column's last value.
// PyTorch has e_r = M_r - P Qᵀ / (number of replicas). Both have the same sum, and only the sum
// matters: every replica's next P and Q are the same. Here no error grows because the replicas'
// gradients differ.
// On one replica this is PyTorch's with one rank. It moves (n + m) r elements instead of n m.
// Errors: InvalidArgument if the rank is less than 1, or another option is negative.
// Source: Vogels, Karimireddy and Jaggi, "PowerSGD: practical low-rank gradient compression for
// distributed optimization", 2019.
GradientReducer PowerSGD(const PowerSGDOptions& options = {});

// Adasum: combines the gradients of the replicas in pairs, neighbours first, as a binary tree over
// the ranks. With a and b the gradients of two subtrees, dot products taken per variable,
//   adasum(a, b) = (1 - a·b / (2 a·a)) a + (1 - a·b / (2 b·b)) b:
// the mean of equal gradients, the sum of orthogonal ones. The gradient of a replica is N x_r,
// where N is the number of replicas: that of the mean loss of its rows if all have equally many. A
// replica that has no partner (N is not a power of two) keeps its gradient, as does one whose
// partner's gradient is zero. On one replica the gradient is unchanged; for other N the result
// depends on N. Each replica receives all others' gradients, N - 1 times the bytes of the variable,
// in a reduce-scatter that leaves it an equal shard of each, and gathers the shards of the result.
// Source: Maleki et al., "Scaling distributed training with adaptive summation", 2020 (Horovod's
// op=Adasum).
GradientReducer Adasum();

}  // namespace hooks
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_COMMUNICATION_HOOKS_H_
