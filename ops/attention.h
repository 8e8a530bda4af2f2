// SPDX-License-Identifier: Apache-2.0
//
// Attention as one op that never materialises the full matrix of attention weights, and its
// gradient op, which recomputes the weights. TensorFlow lacks both ops, so graph files express them
// in terms of TensorFlow's ops.
#ifndef MIRRORFLOW_OPS_ATTENTION_H_
#define MIRRORFLOW_OPS_ATTENTION_H_

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

// Op names, for passes that match these ops.
inline constexpr char kScaledDotProductAttention[] = "ScaledDotProductAttention";
inline constexpr char kScaledDotProductAttentionGrad[] = "ScaledDotProductAttentionGrad";

struct AttentionOptions {
  float scale = 0;      // 0: 1 / sqrt(d), where d must be known
  bool causal = false;  // if true, query i attends only to keys 0 to i
  // If valid, is added to the scaled products; broadcasts to [batch, heads, n, m].
  Output mask = {};
  // If true, q, k, v, y and their gradients are [batch, n or m, heads, d or e], which is how a
  // single product for all heads writes them.
  bool heads_inside = false;
};
struct AttentionOutputs {
  Output y;
  Output log_sum;  // log of the sum of exponentials per query: [batch, heads, n]
};

// ScaledDotProductAttention: softmax(scale * q · kᵀ + mask) · v, for each head of each example.
// Shapes:   q [batch, heads, n, d], k [batch, heads, m, d], v [batch, heads, m, e]
//           -> y [batch, heads, n, e]; with `heads_inside`, the heads are dimension 2 of each.
// Special:  a query whose mask is -infinity for every key yields NaN; if there are no keys (m = 0),
//           y is 0.
// Dtypes:   half, bfloat16, float, double; log_sum is float, or double if q is.
// Errors:   InvalidArgument if the shapes do not match, or if `scale` is 0 and d is not known when
//           the op is added.
// Gradient: ScaledDotProductAttentionGrad, through y only. The mask's gradient and the gradients
//           through log_sum use TensorFlow's ops.
// Source:   Vaswani et al., "Attention is all you need", 2017; tiles with a running maximum: Dao et
//           al., "FlashAttention", 2022.
AttentionOutputs ScaledDotProductAttention(const Scope& scope, Output q, Output k, Output v,
                                           const AttentionOptions& options = {});

struct AttentionGradOutputs {
  Output dq, dk, dv;
};

// ScaledDotProductAttentionGrad: the gradients of q, k and v, given the gradient `dy` of y and both
// results of the forward op. Linear in dy.
AttentionGradOutputs ScaledDotProductAttentionGrad(const Scope& scope, Output dy, Output q,
                                                   Output k, Output v, Output y, Output log_sum,
                                                   const AttentionOptions& options);

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_ATTENTION_H_
