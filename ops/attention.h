// SPDX-License-Identifier: Apache-2.0
//
// Attention as one op that never stores the weights of all pairs, and its gradient op, which makes
// them anew. The ops are our own: a file says them in TensorFlow's.
#ifndef MIRRORFLOW_OPS_ATTENTION_H_
#define MIRRORFLOW_OPS_ATTENTION_H_

#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterAttention(OpRegistry& ops);

namespace ops {

// For passes that are about them.
inline constexpr char kScaledDotProductAttention[] = "ScaledDotProductAttention";
inline constexpr char kScaledDotProductAttentionGrad[] = "ScaledDotProductAttentionGrad";

struct AttentionOptions {
  float scale = 0;      // 0: 1 / sqrt(d), where d is known
  bool causal = false;  // query i sees the keys 0 to i only
  Output mask = {};     // added to the scaled products; broadcasts to [batch, heads, n, m]
};
struct AttentionOutputs {
  Output y;
  Output log_sum;  // of the exponentials of each query: [batch, heads, n]
};

// ScaledDotProductAttention: softmax(scale * q · kᵀ + mask) · v, for each head of each example.
// Shapes:   q [batch, heads, n, d], k [batch, heads, m, d], v [batch, heads, m, e]
//           -> y [batch, heads, n, e].
// Special:  a query that sees no key, as all its masks are -infinity, has NaN; of m = 0 keys, 0.
// Dtypes:   half, bfloat16, float, double; log_sum is float, or double with q.
// Gradient: ScaledDotProductAttentionGrad; of y alone.
// Source:   Vaswani et al., "Attention is all you need", 2017; in tiles, with a running maximum:
//           Dao et al., "FlashAttention", 2022.
AttentionOutputs ScaledDotProductAttention(const Scope& scope, Output q, Output k, Output v,
                                           const AttentionOptions& options = {});

struct AttentionGradOutputs {
  Output dq, dk, dv;
};

// ScaledDotProductAttentionGrad: what a gradient `dy` of y makes of q, k and v, given both results.
// Linear in dy.
AttentionGradOutputs ScaledDotProductAttentionGrad(const Scope& scope, Output dy, Output q,
                                                   Output k, Output v, Output y, Output log_sum,
                                                   const AttentionOptions& options);

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_ATTENTION_H_
