// SPDX-License-Identifier: Apache-2.0
//
// Attention layers and rotary position embeddings. Sequences are [batch, n, width]. Query i is the
// element at position i of the query sequence; key j is at position j of the key sequence, whose
// length is m.
#ifndef MIRRORFLOW_TRAIN_LAYERS_ATTENTION_H_
#define MIRRORFLOW_TRAIN_LAYERS_ATTENTION_H_

#include <cstdint>
#include <string>

#include "framework/graph/scope.h"
#include "train/variable.h"

namespace mirrorflow {
namespace layers {

struct MaskOptions {
  bool causal = false;  // if true, query i attends only to keys 0 to i
  // A value that is broadcast to the shape of the scaled logits, [batch, heads, n, m], and added to
  // them: 0 keeps a query-key pair, a large negative number such as -1e9 masks it out. Use [batch,
  // 1, 1, m] to mask out padding keys. At least one key must remain for each query; otherwise, the
  // query's attention weights are undefined.
  Output mask = {};
};

// MaskedSoftmax: softmax(scale * logits + mask) along the last dimension.
// Shapes:   logits […, n, m] -> the same shape.
// Errors:   InvalidArgument if `scale` is not finite, or if `causal` is set and n or m is unknown.
Output MaskedSoftmax(const Scope& scope, Output logits, double scale,
                     const MaskOptions& options = {});

struct SelfAttentionOptions {
  MaskOptions mask = {};
  Initializer kernel_initializer = initializers::GlorotUniform();
  std::string name = "attention";
};

// SelfAttention: softmax(q · kᵀ / sqrt(width / heads) + mask) · v for each head. q, k and v are
//                Dense layers of x, and a final Dense layer combines the heads: four layers [width,
//                width], named `query`, `key`, `value` and `output`.
// Shapes:   x [batch, n, width] -> the same shape.
// Errors:   InvalidArgument if x has a different rank, if n or `width` is unknown, or if `width` is
//           not a multiple of `heads`.
// Source:   Vaswani et al., "Attention is all you need", 2017.
Output SelfAttention(const Scope& scope, Output x, int64_t heads,
                     const SelfAttentionOptions& options = {});

struct MultiHeadAttentionOptions {
  int64_t value_dim = 0;     // width of each head's values; 0: key_dim
  double dropout = 0;        // dropout rate of the attention weights, in training
  bool use_bias = true;      // whether the four projections have a bias
  int64_t output_shape = 0;  // width of the result; 0: the query's width
  Output key = {};           // the key sequence; if not set, `value`
  // The mask can also be bool: true keeps a query-key pair. It has rank 4 or, as in Keras, shape
  // [batch, n, m].
  MaskOptions mask = {};
  // If not 0, RotaryEmbedding with this max_wavelength is applied to queries and keys.
  double rotary_wavelength = 0;
  Initializer kernel_initializer = initializers::GlorotUniform();
  Initializer bias_initializer = initializers::Zeros();
  std::string name = "multi_head_attention";
};

// MultiHeadAttention: softmax(q · kᵀ / sqrt(key_dim) + mask) · v for each head, where q, k and v
//                     are linear projections of the query, the key and the value. A final linear
//                     projection combines the heads. If query, key and value are the same sequence,
//                     SelfAttention has fewer arguments.
// Shapes:    query [batch, n, in], value and key [batch, m, …] -> [batch, n, output_shape]. Every
//            dimension except the batch must be known.
// Variables: query/kernel [in, num_heads, key_dim] and query/bias [num_heads, key_dim]; key/kernel,
//            key/bias, value/kernel and value/bias in the same way, with value_dim for the value;
//            attention_output/kernel [num_heads, value_dim, output_shape] and attention_output/bias
//            [output_shape].
// Errors:    InvalidArgument if a number of heads or a width is less than 1, if a dimension other
//            than the batch is unknown, if a sequence or the mask has a different rank, or if the
//            key and value sequences have different lengths.
// Source:    Vaswani et al., "Attention is all you need", 2017; Keras' defaults.
Output MultiHeadAttention(const Scope& scope, Output query, Output value, int64_t num_heads,
                          int64_t key_dim, const MultiHeadAttentionOptions& options = {});

// The options of MultiHeadAttention that apply to grouped heads.
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

// GroupQueryAttention: MultiHeadAttention with fewer heads of keys and values: each of them is used
//                      by num_query_heads / num_key_value_heads consecutive query heads.
// Shapes:    query [batch, n, in], value and key [batch, m, …] -> [batch, n, in].
// Variables: as in MultiHeadAttention, with head_dim for key_dim and value_dim, and with
//            num_key_value_heads heads in the variables of key and value.
// Errors:    as in MultiHeadAttention, and InvalidArgument unless num_query_heads is a multiple of
//            num_key_value_heads.
// Source:    Ainslie et al., "GQA", 2023; Keras' GroupQueryAttention.
Output GroupQueryAttention(const Scope& scope, Output query, Output value, int64_t head_dim,
                           int64_t num_query_heads, int64_t num_key_value_heads,
                           const GroupQueryAttentionOptions& options = {});

struct RotaryEmbeddingOptions {
  double max_wavelength = 10000;
  double scaling_factor = 1;  // divides positions, for sequences that are longer than in training
  // Which elements form pair i: 2i and 2i + 1 if true, as in the paper, or i and i + d / 2 if
  // false, as in KerasHub and in Hugging Face models.
  bool interleaved = false;
};

// RotaryEmbedding: encodes the position of each vector in a sequence: splits the d elements of the
//                  vector at position p into pairs, and rotates pair i by the angle p /
//                  scaling_factor / max_wavelength^(2i / d), in radians.
// Shapes:   x [batch, n, d] or, split into heads, [batch, n, heads, d] -> the same shape. Every
//           dimension except the batch must be known, and d must be even.
// Errors:   InvalidArgument for other shapes, and for options that are not positive and finite.
// Source:   Su et al., "RoFormer: Enhanced transformer with rotary position embedding", 2021.
Output RotaryEmbedding(const Scope& scope, Output x, const RotaryEmbeddingOptions& options = {});

}  // namespace layers
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LAYERS_ATTENTION_H_
