// SPDX-License-Identifier: Apache-2.0
//
// Attention layers and position embeddings. Sequences are [batch, n, width].
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
  // Broadcast to the shape of the scaled logits and added to them: 0 keeps a query-key pair, a
  // large negative number masks it out. Use [batch, 1, 1, m] to mask out padding keys. At least one
  // key must remain for each query; otherwise, the query's weights are undefined.
  Output mask = {};
};

// MaskedSoftmax: softmax(scale * logits + mask) along the last dimension.
// Shapes:   logits […, n, m] -> the same shape; with `causal`, n and m must be known.
// Errors:   InvalidArgument for a scale that is not finite.
Output MaskedSoftmax(const Scope& scope, Output logits, double scale,
                     const MaskOptions& options = {});

struct SelfAttentionOptions {
  MaskOptions mask = {};
  Initializer kernel_initializer = initializers::GlorotUniform();
  std::string name = "attention";
};

// SelfAttention: softmax(q · kᵀ / sqrt(width / heads) + mask) · v for each head, where q, k and v
//                are dense layers of x; a final dense layer combines the heads.
// Shapes:   x [batch, n, width] -> the same shape; n and width must be known, and width must be a
//           multiple of `heads`.
// Source:   Vaswani et al., "Attention is all you need", 2017.
Output SelfAttention(const Scope& scope, Output x, int64_t heads,
                     const SelfAttentionOptions& options = {});

struct MultiHeadAttentionOptions {
  int64_t value_dim = 0;     // width of each head's values; 0: key_dim
  double dropout = 0;        // dropout rate of the attention weights, in training
  bool use_bias = true;      // for all four projections
  int64_t output_shape = 0;  // width of the result; 0: the query's width
  Output key = {};           // the key sequence; by default `value`
  // A bool mask is true for the pairs to keep. The mask can also have shape [batch, n, m], as in
  // Keras.
  MaskOptions mask = {};
  double rotary_wavelength = 0;  // if not 0, applies RotaryEmbedding to queries and keys
  Initializer kernel_initializer = initializers::GlorotUniform();
  Initializer bias_initializer = initializers::Zeros();
  std::string name = "multi_head_attention";
};

// MultiHeadAttention: softmax(q · kᵀ / sqrt(key_dim) + mask) · v for each head, where q, k and v
//                     are linear projections of the query, the key and the value; then a linear
//                     projection of all heads. SelfAttention is shorter if the query is also the
//                     value.
// Shapes:    query [batch, n, in], value and key [batch, m, …] -> [batch, n, output_shape]. Every
//            dimension except the batch must be known.
// Variables: query/kernel [in, num_heads, key_dim], query/bias [num_heads, key_dim], likewise for
//            key and value; attention_output/kernel [num_heads, value_dim, output_shape] and
//            attention_output/bias [output_shape].
// Errors:    InvalidArgument if a size is below 1, if a dimension is unknown, or if the key and
//            value sequences have different lengths.
// Source:    Vaswani et al., "Attention is all you need", 2017; Keras' defaults.
Output MultiHeadAttention(const Scope& scope, Output query, Output value, int64_t num_heads,
                          int64_t key_dim, const MultiHeadAttentionOptions& options = {});

struct GroupQueryAttentionOptions {
  double dropout = 0;
  bool use_bias = true;
  Output key = {};
  MaskOptions mask = {};
  double rotary_wavelength = 0;
  Initializer kernel_initializer = initializers::GlorotUniform();
  Initializer bias_initializer = initializers::Zeros();
  std::string name = "grouped_query_attention";
};

// GroupQueryAttention: MultiHeadAttention in which each group of consecutive query heads shares one
//                      head of keys and values.
// Variables: as in MultiHeadAttention, but key/kernel and value/kernel are [in,
//            num_key_value_heads, head_dim].
// Errors:    as in MultiHeadAttention, and InvalidArgument unless num_query_heads is a multiple of
//            num_key_value_heads.
// Source:    Ainslie et al., "GQA", 2023; Keras' GroupQueryAttention.
Output GroupQueryAttention(const Scope& scope, Output query, Output value, int64_t head_dim,
                           int64_t num_query_heads, int64_t num_key_value_heads,
                           const GroupQueryAttentionOptions& options = {});

struct RotaryEmbeddingOptions {
  double max_wavelength = 10000;
  double scaling_factor = 1;  // divides positions, for sequences that are longer than in training
  // Whether to rotate the pairs of elements 2i and 2i + 1, as in the paper, instead of i and
  // i + d / 2, as in KerasHub and in Hugging Face models.
  bool interleaved = false;
};

// RotaryEmbedding: rotates pair i of the element at position p by the angle
//                  p / scaling_factor / max_wavelength^(2i / d).
// Shapes:   x [batch, n, d] or, split into heads, [batch, n, heads, d] -> the same shape. n and d
//           must be known, and d must be even.
// Errors:   InvalidArgument for other shapes, and for options that are not positive and finite.
// Source:   Su et al., "RoFormer: Enhanced transformer with rotary position embedding", 2021.
Output RotaryEmbedding(const Scope& scope, Output x, const RotaryEmbeddingOptions& options = {});

}  // namespace layers
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LAYERS_ATTENTION_H_
