// SPDX-License-Identifier: Apache-2.0
#include "train/layers/multi_head_attention.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "ops/attention.h"
#include "ops/bias_add.h"
#include "ops/constant.h"
#include "ops/einsum.h"
#include "ops/matmul.h"
#include "ops/reshape.h"
#include "ops/select.h"
#include "ops/tile.h"
#include "train/layers/dropout.h"
#include "train/layers/layer_support.h"
#include "train/layers/rotary_embedding.h"

namespace mirrorflow {
namespace layers {
namespace {

struct Heads {
  int64_t queries, keys, key_dim, value_dim, output;
};

// x [batch, n, in] · kernel [in, heads, dim] + bias [heads, dim] -> [batch, n, heads, dim].
template <typename Options>
Output ToHeads(const Scope& s, Output x, int64_t heads, int64_t dim, const Options& options) {
  const int64_t n = s.shape(x).dim(1), in = s.shape(x).dim(2), width = heads * dim;
  const Variable kernel = CreateVariable(s, "kernel", {in, heads, dim}, options.kernel_initializer);
  Output y = ops::MatMul(s, ops::Reshape(s, x, Shape({kUnknownDim, in})),
                         ops::Reshape(s, kernel.value, Shape({in, width})));
  if (options.use_bias) {
    const Variable bias = CreateVariable(s, "bias", {heads, dim}, options.bias_initializer);
    y = ops::BiasAdd(s, y, ops::Reshape(s, bias.value, Shape({width})));
  }
  return ops::Reshape(s, y, Shape({kUnknownDim, n, heads, dim}));
}

// y [batch, n, heads, dim] · kernel [heads, dim, out] + bias -> [batch, n, out].
template <typename Options>
Output FromHeads(const Scope& s, Output y, const Heads& heads, const Options& options) {
  const int64_t n = s.shape(y).dim(1), width = heads.queries * heads.value_dim;
  const Variable kernel = CreateVariable(
      s, "kernel", {heads.queries, heads.value_dim, heads.output}, options.kernel_initializer);
  const Output product = ops::MatMul(s, ops::Reshape(s, y, Shape({kUnknownDim, width})),
                                     ops::Reshape(s, kernel.value, Shape({width, heads.output})));
  return ops::Reshape(
      s, AddBias(s, product, heads.output, options.use_bias, options.bias_initializer, nullptr),
      Shape({kUnknownDim, n, heads.output}));
}

// Copies each head of x [batch, m, heads, dim] `times` times.
Output RepeatHeads(const Scope& s, Output x, int64_t times) {
  if (times == 1) return x;
  const Shape shape = s.shape(x);
  const Output copies =
      ops::Tile(s, ops::ExpandDims(s, x, 3), ops::VectorConst(s, {1, 1, 1, times, 1}));
  return ops::Reshape(s, copies,
                      Shape({kUnknownDim, shape.dim(1), shape.dim(2) * times, shape.dim(3)}));
}

// The mask as a number to add to the logits.
Output Added(const Scope& s, Output mask, DataType dtype) {
  if (!mask.valid()) return mask;
  if (s.shape(mask).rank() == 3) mask = ops::ExpandDims(s, mask, 1);  // all heads
  if (mask.dtype() != DT_BOOL) return mask;
  return ops::SelectV2(s, mask, ops::ScalarConst(s, dtype, 0), ops::ScalarConst(s, dtype, -1e9));
}

bool CheckInputs(const Scope& s, Output query, Output value, Output key, const Heads& heads,
                 const MaskOptions& mask, const std::string& layer) {
  if (!s.ok()) return false;
  for (const Output& x : {query, value, key}) {
    if (!CheckExamples(s, x, 3, layer)) return false;
  }
  for (const int64_t size :
       {heads.queries, heads.keys, heads.key_dim, heads.value_dim, heads.output}) {
    if (!CheckSize(s, layer, "a number or width of heads", size)) return false;
  }
  if (heads.queries % heads.keys != 0) {
    Fail(s, absl::StrCat(layer, ": expected a multiple of ", heads.keys, " query heads, got ",
                         heads.queries));
    return false;
  }
  if (s.shape(key).dim(1) != s.shape(value).dim(1)) {
    Fail(s, absl::StrCat(layer, ": expected as many keys as values, got shapes ",
                         s.shape(key).ToString(), " and ", s.shape(value).ToString()));
    return false;
  }
  const Shape& shape = s.shape(mask.mask);
  if (mask.mask.valid() && (shape.unknown_rank() || (shape.rank() != 3 && shape.rank() != 4))) {
    Fail(s, absl::StrCat(layer, ": expected a mask of rank 3 or 4, got shape ", shape.ToString()));
    return false;
  }
  return true;
}

template <typename Options>
Output Attend(const Scope& s, Output query, Output value, const Heads& heads,
              const Options& options) {
  const Output key = options.key.valid() ? options.key : value;
  if (!CheckInputs(s, query, value, key, heads, options.mask, options.name)) return Output();
  Output q = ToHeads(s.SubScope("query"), query, heads.queries, heads.key_dim, options);
  Output k = ToHeads(s.SubScope("key"), key, heads.keys, heads.key_dim, options);
  Output v = ToHeads(s.SubScope("value"), value, heads.keys, heads.value_dim, options);
  if (options.rotary_wavelength != 0) {
    q = RotaryEmbedding(s, q, {.max_wavelength = options.rotary_wavelength});
    k = RotaryEmbedding(s, k, {.max_wavelength = options.rotary_wavelength});
  }
  if (!s.ok()) return Output();
  k = RepeatHeads(s, k, heads.queries / heads.keys);
  v = RepeatHeads(s, v, heads.queries / heads.keys);
  const Output mask = Added(s, options.mask.mask, query.dtype());
  Output y;
  if (options.dropout == 0) {
    y = ops::ScaledDotProductAttention(
            s, q, k, v, {.causal = options.mask.causal, .mask = mask, .heads_inside = true})
            .y;
  } else {
    const Output logits = ops::Einsum(s, {q, k}, "bnhd,bmhd->bhnm");
    const double scale = 1 / std::sqrt(static_cast<double>(heads.key_dim));
    const Output weights =
        MaskedSoftmax(s, logits, scale, {.causal = options.mask.causal, .mask = mask});
    y = ops::Einsum(s, {Dropout(s, weights, options.dropout), v}, "bhnm,bmhd->bnhd");
  }
  return y.valid() ? FromHeads(s.SubScope("attention_output"), y, heads, options) : Output();
}

// The width of x, or 1 if it is not known, which CheckInputs reports.
int64_t WidthOf(const Scope& s, Output x) {
  return EndsKnown(s, x, 1, 1) ? s.shape(x).dim(s.shape(x).rank() - 1) : 1;
}

}  // namespace

Output MultiHeadAttention(const Scope& scope, Output query, Output value, int64_t num_heads,
                          int64_t key_dim, const MultiHeadAttentionOptions& options) {
  const Scope s = scope.SubScope(options.name);
  const Heads heads = {
      .queries = num_heads,
      .keys = num_heads,
      .key_dim = key_dim,
      .value_dim = options.value_dim != 0 ? options.value_dim : key_dim,
      .output = options.output_shape != 0 ? options.output_shape : WidthOf(s, query)};
  return Attend(s, query, value, heads, options);
}

Output GroupQueryAttention(const Scope& scope, Output query, Output value, int64_t head_dim,
                           int64_t num_query_heads, int64_t num_key_value_heads,
                           const GroupQueryAttentionOptions& options) {
  const Scope s = scope.SubScope(options.name);
  const Heads heads = {.queries = num_query_heads,
                       .keys = num_key_value_heads,
                       .key_dim = head_dim,
                       .value_dim = head_dim,
                       .output = WidthOf(s, query)};
  return Attend(s, query, value, heads, options);
}

}  // namespace layers
}  // namespace mirrorflow
