// SPDX-License-Identifier: Apache-2.0
//
// Layers of transformers, in addition to those of layers.h. Sequences are [batch, n, width].
#ifndef MIRRORFLOW_TRAIN_TRANSFORMER_LAYERS_H_
#define MIRRORFLOW_TRAIN_TRANSFORMER_LAYERS_H_

#include <cstdint>
#include <string>

#include "framework/graph/scope.h"
#include "train/variable.h"

namespace mirrorflow {
namespace layers {

struct EmbeddingOptions {
  Initializer embeddings_initializer = initializers::RandomNormal(0.02);  // as in GPT-2
  std::string name = "embedding";
};

// Embedding: looks up a row of a table for each id.
// Shapes:   ids […] (int32 or int64) -> […, width]; variable embeddings [vocabulary, width].
// Errors:   the step fails with InvalidArgument for an id outside [0, vocabulary), before any
//           variable changes.
Output Embedding(const Scope& scope, Output ids, int64_t vocabulary, int64_t width,
                 const EmbeddingOptions& options = {});
// The same, with a table that other layers can share.
Output Embedding(const Scope& scope, Output ids, const Variable& embeddings);

struct LayerNormalizationOptions {
  double epsilon = 1e-3;  // Keras' default; PyTorch's is 1e-5
  std::string name = "layer_norm";
};

// LayerNormalization: y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, with mean and
//                     variance over the last dimension.
// Shapes:   x […, width] -> y […, width]; variables gamma, beta [width].
// Errors:   InvalidArgument if `width` is not known while the graph is built.
Output LayerNormalization(const Scope& scope, Output x,
                          const LayerNormalizationOptions& options = {});

struct MaskOptions {
  bool causal = false;  // query i attends only to keys 0 to i
  // Added to the scaled logits, to whose shape it is broadcast: 0 to keep a pair, a large negative
  // number to mask it out. Use [batch, 1, 1, m] to mask out keys that are padding.
  Output mask = {};
};

// MaskedSoftmax: softmax(scale * logits + mask) along the last dimension.
// Shapes:   logits […, n, m] -> the same; with `causal`, n and m must be known.
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

#endif  // MIRRORFLOW_TRAIN_TRANSFORMER_LAYERS_H_
