// SPDX-License-Identifier: Apache-2.0
//
// Attention. Sequences are [batch, n, width].
#ifndef MIRRORFLOW_TRAIN_LAYERS_ATTENTION_H_
#define MIRRORFLOW_TRAIN_LAYERS_ATTENTION_H_

#include <cstdint>
#include <string>

#include "framework/graph/scope.h"
#include "train/variable.h"

namespace mirrorflow {
namespace layers {

struct MaskOptions {
  bool causal = false;  // query i attends only to keys 0 to i
  // Added to the scaled logits, to whose shape it is broadcast: 0 to keep a pair, a large negative
  // number to mask it out. Use [batch, 1, 1, m] to mask out keys that are padding. Each query must
  // keep a key; the weights of a query without one are not defined.
  Output mask = {};
};

// MaskedSoftmax: softmax(scale * logits + mask) along the last dimension.
// Shapes:   logits […, n, m] -> the same; with `causal`, n and m must be known.
// Errors:   InvalidArgument for a scale that is not finite.
Output MaskedSoftmax(const Scope& scope, Output logits, double scale,
                     const MaskOptions& options = {});

struct SelfAttentionOptions {
  MaskOptions mask = {};
  Initializer kernel_initializer = initializers::GlorotUniform();
  std::string name = "attention";
};

// SelfAttention: softmax(q · kᵀ / sqrt(width / heads) + mask) · v for each head, where q, k and v
//                are dense layers of x; then a dense layer of all heads.
// Shapes:   x [batch, n, width] -> the same; n and width must be known, width a multiple of heads.
// Source:   Vaswani et al., "Attention is all you need", 2017.
Output SelfAttention(const Scope& scope, Output x, int64_t heads,
                     const SelfAttentionOptions& options = {});

}  // namespace layers
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LAYERS_ATTENTION_H_
