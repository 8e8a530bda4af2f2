// SPDX-License-Identifier: Apache-2.0
//
// Attention of one sequence to another, with Keras' variables. For attention of a sequence to
// itself, SelfAttention (attention.h) is shorter.
#ifndef MIRRORFLOW_TRAIN_LAYERS_MULTI_HEAD_ATTENTION_H_
#define MIRRORFLOW_TRAIN_LAYERS_MULTI_HEAD_ATTENTION_H_

#include <cstdint>
#include <string>

#include "framework/graph/scope.h"
#include "train/layers/attention.h"
#include "train/variable.h"

namespace mirrorflow {
namespace layers {

struct MultiHeadAttentionOptions {
  int64_t value_dim = 0;     // the width of each head's values; 0: key_dim
  double dropout = 0;        // of the attention weights, in training
  bool use_bias = true;      // of the four projections
  int64_t output_shape = 0;  // the width of the result; 0: that of the query
  Output key = {};           // the sequence of the keys; the values' by default
  // A mask of bool marks the pairs to keep; its shape may also be [batch, n, m], as in Keras.
  MaskOptions mask = {};
  double rotary_wavelength = 0;  // if not 0, applies RotaryEmbedding to queries and keys
  Initializer kernel_initializer = initializers::GlorotUniform();
  Initializer bias_initializer = initializers::Zeros();
  std::string name = "multi_head_attention";
};

// MultiHeadAttention: softmax(q · kᵀ / sqrt(key_dim) + mask) · v for each head, where q, k and v
//                     are linear in the query, the key and the value; then a linear map of all
//                     heads.
// Shapes:    query [batch, n, in], value and key [batch, m, …] -> [batch, n, output_shape]; all but
//            the batch must be known.
// Variables: query/kernel [in, num_heads, key_dim], query/bias [num_heads, key_dim], the same for
//            key and value; attention_output/kernel [num_heads, value_dim, output_shape] and
//            attention_output/bias [output_shape].
// Errors:    InvalidArgument for sizes below 1, unknown dimensions, and keys and values of
//            different lengths.
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

// GroupQueryAttention: MultiHeadAttention in which consecutive query heads share a head of keys and
//                      values.
// Variables: as above; key/kernel and value/kernel are [in, num_key_value_heads, head_dim].
// Errors:    as above, and InvalidArgument unless num_query_heads is a multiple of
//            num_key_value_heads.
// Source:    Ainslie et al., "GQA", 2023; Keras' GroupQueryAttention.
Output GroupQueryAttention(const Scope& scope, Output query, Output value, int64_t head_dim,
                           int64_t num_query_heads, int64_t num_key_value_heads,
                           const GroupQueryAttentionOptions& options = {});

}  // namespace layers
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LAYERS_MULTI_HEAD_ATTENTION_H_
