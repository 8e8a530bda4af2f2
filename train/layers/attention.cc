// SPDX-License-Identifier: Apache-2.0
#include "train/layers/attention.h"

#include <cmath>
#include <vector>

#include "ops/attention.h"
#include "ops/bias_add.h"
#include "ops/binary.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/einsum.h"
#include "ops/matmul.h"
#include "ops/reshape.h"
#include "ops/select.h"
#include "ops/softmax.h"
#include "ops/split.h"
#include "ops/tile.h"
#include "ops/transpose.h"
#include "train/layers/dense.h"
#include "train/layers/dropout.h"
#include "train/layers/layer_support.h"
#include "train/numeric_options.h"

namespace mirrorflow {
namespace layers {
namespace {

// Returns an n x m mask with 0 on and below the diagonal. Above the diagonal, it has a number so
// negative that softmax returns 0.
Output CausalMask(const Scope& scope, int64_t n, int64_t m, DataType dtype) {
  constexpr float kOut = -1e9f;
  std::vector<float> values(n * m, 0.0f);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = i + 1; j < m; ++j) values[i * m + j] = kOut;
  }
  return FloatConst(scope, {n, m}, values, dtype);
}

// Rearranges [batch, n, width] to [batch, heads, n, depth], where width = heads * depth.
Output SplitHeads(const Scope& scope, Output x, int64_t n, int64_t heads, int64_t depth) {
  return ops::Transpose(scope, ops::Reshape(scope, x, Shape({kUnknownDim, n, heads, depth})),
                        {0, 2, 1, 3});
}

struct Heads {
  int64_t queries, keys, key_dim, value_dim, output;
};

// Computes x [batch, n, in] · kernel [in, heads, dim] + bias [heads, dim] -> [batch, n, heads,
// dim].
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

// Computes y [batch, n, heads, dim] · kernel [heads, dim, out] + bias -> [batch, n, out].
template <typename Options>
Output FromHeads(const Scope& s, Output y, const Heads& heads, const Options& options) {
  const int64_t n = s.shape(y).dim(1), width = heads.queries * heads.value_dim;
  const Variable kernel = CreateVariable(
      s, "kernel", {heads.queries, heads.value_dim, heads.output}, options.kernel_initializer);
  const Output product = ops::MatMul(s, ops::Reshape(s, y, Shape({kUnknownDim, width})),
                                     ops::Reshape(s, kernel.value, Shape({width, heads.output})));
  return ops::Reshape(s, AddBias(s, product, heads.output, options, nullptr),
                      Shape({kUnknownDim, n, heads.output}));
}

// Repeats each head of x [batch, m, heads, dim] `times` times.
Output RepeatHeads(const Scope& s, Output x, int64_t times) {
  if (times == 1) return x;
  const Shape shape = s.shape(x);
  const Output copies =
      ops::Tile(s, ops::ExpandDims(s, x, 3), ops::VectorConst(s, {1, 1, 1, times, 1}));
  return ops::Reshape(s, copies,
                      Shape({kUnknownDim, shape.dim(1), shape.dim(2) * times, shape.dim(3)}));
}

// Converts a mask to the numbers that are added to the logits.
Output Added(const Scope& s, Output mask, DataType dtype) {
  if (!mask.valid()) return mask;
  if (s.shape(mask).rank() == 3) mask = ops::ExpandDims(s, mask, 1);  // broadcast to all heads
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
    if (!CheckSize(s, layer, "head count or width", size)) return false;
  }
  if (heads.queries % heads.keys != 0) {
    Fail(s, layer, ": num_query_heads out of range; expected a multiple of ", heads.keys, ", got ",
         heads.queries);
    return false;
  }
  if (s.shape(key).dim(1) != s.shape(value).dim(1)) {
    Fail(s, layer, ": expected keys and values of the same length, got shapes ",
         s.shape(key).ToString(), " and ", s.shape(value).ToString());
    return false;
  }
  const Shape& shape = s.shape(mask.mask);
  if (mask.mask.valid() && (shape.unknown_rank() || (shape.rank() != 3 && shape.rank() != 4))) {
    Fail(s, layer, ": expected a mask of rank 3 or 4, got shape ", shape.ToString());
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

// Returns the width of x, or 1 if it is unknown; CheckInputs reports unknown widths.
int64_t WidthOf(const Scope& s, Output x) {
  return EndsKnown(s, x, 1, 1) ? s.shape(x).dim(s.shape(x).rank() - 1) : 1;
}

struct Rotations {
  Output cosines, sines;  // [n, d / 2], or [n, 1, d / 2] if x has heads
};

Rotations RotationsFor(const Scope& s, Output x, const RotaryEmbeddingOptions& options) {
  const Shape& shape = s.shape(x);
  const bool heads = shape.rank() == 4;
  const int64_t n = shape.dim(1), d = shape.dim(shape.rank() - 1), half = d / 2;
  std::vector<float> cosines(n * half), sines(n * half);
  for (int64_t p = 0; p < n; ++p) {
    for (int64_t i = 0; i < half; ++i) {
      const double part = 2 * static_cast<double>(i) / static_cast<double>(d);
      const double angle =
          static_cast<double>(p) / options.scaling_factor / std::pow(options.max_wavelength, part);
      cosines[p * half + i] = static_cast<float>(std::cos(angle));
      sines[p * half + i] = static_cast<float>(std::sin(angle));
    }
  }
  const Shape table = heads ? Shape({n, 1, half}) : Shape({n, half});
  return {FloatConst(s, table, cosines, x.dtype()), FloatConst(s, table, sines, x.dtype())};
}

}  // namespace

Output MaskedSoftmax(const Scope& scope, Output logits, double scale, const MaskOptions& options) {
  const Scope s = scope.SubScope("softmax");
  if (!CheckNumbers(s, "softmax", {{"scale", scale, kAnyNumber}})) return Output();
  if (options.causal && !EndsKnown(s, logits, 2, 2)) {
    return Fail(
        s, "softmax: causal mask of unknown size; expected known last two dimensions, got shape ",
        s.shape(logits).ToString());
  }
  const DataType dtype = logits.dtype();
  const Shape shape = s.shape(logits);
  if (scale != 1) logits = ops::Mul(s, logits, ops::ScalarConst(s, dtype, scale));
  if (options.mask.valid()) logits = ops::AddV2(s, logits, options.mask);
  if (options.causal) {
    const int rank = shape.rank();
    logits = ops::AddV2(s, logits, CausalMask(s, shape.dim(rank - 2), shape.dim(rank - 1), dtype));
  }
  return ops::Softmax(s, logits);
}

Output SelfAttention(const Scope& scope, Output x, int64_t heads,
                     const SelfAttentionOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!s.ok()) return Output();
  const Shape shape = s.shape(x);
  if (!EndsKnown(s, x, 3, 2) || shape.rank() != 3 || heads < 1 || shape.dim(2) % heads != 0) {
    return Fail(s, options.name,
                ": expected [batch, n, width] with a known n and a width divisible by ", heads,
                " heads, got shape ", shape.ToString());
  }
  const int64_t n = shape.dim(1), width = shape.dim(2), depth = width / heads;
  const auto dense = [&](Output in, const char* name) {
    return Dense(s, in, width, nullptr,
                 {.kernel_initializer = options.kernel_initializer, .name = name});
  };
  const auto heads_of = [&](const char* name) {
    return SplitHeads(s, dense(x, name), n, heads, depth);
  };
  const Output q = heads_of("query"), k = heads_of("key"), v = heads_of("value");
  const Output y = ops::ScaledDotProductAttention(
                       s, q, k, v, {.causal = options.mask.causal, .mask = options.mask.mask})
                       .y;
  const Output joined =
      ops::Reshape(s, ops::Transpose(s, y, {0, 2, 1, 3}), Shape({kUnknownDim, n, width}));
  return dense(joined, "output");
}

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

Output RotaryEmbedding(const Scope& scope, Output x, const RotaryEmbeddingOptions& options) {
  const Scope s = scope.SubScope("rotary_embedding");
  if (!s.ok()) return Output();
  const Shape shape = s.shape(x);
  const int rank = !shape.unknown_rank() && shape.rank() == 4 ? 4 : 3;
  if (!CheckExamples(s, x, rank, "rotary_embedding")) return Output();
  const int64_t d = shape.dim(rank - 1);
  if (!CheckNumbers(s, "rotary_embedding",
                    {{"max_wavelength", options.max_wavelength, kPositive},
                     {"scaling_factor", options.scaling_factor, kPositive}})) {
    return Output();
  }
  if (d % 2 != 0) {
    return Fail(s, "rotary_embedding: expected an even last dimension, got shape ",
                shape.ToString());
  }
  Shape pairs = shape;  // used if pairs are interleaved
  pairs.set_dim(0, kUnknownDim);
  pairs.set_dim(rank - 1, d / 2);
  pairs.AddDim(2);
  const std::vector<Output> parts =
      options.interleaved ? ops::Unpack(s, ops::Reshape(s, x, pairs), 2, {.axis = rank})
                          : ops::Split(s, x, 2, rank - 1);
  const Rotations r = RotationsFor(s, x, options);
  const Output first =
      ops::Sub(s, ops::Mul(s, parts[0], r.cosines), ops::Mul(s, parts[1], r.sines));
  const Output second =
      ops::AddV2(s, ops::Mul(s, parts[1], r.cosines), ops::Mul(s, parts[0], r.sines));
  if (!options.interleaved) return ops::ConcatV2(s, {first, second}, rank - 1);
  Shape whole = shape;
  whole.set_dim(0, kUnknownDim);
  return ops::Reshape(s, ops::Pack(s, {first, second}, {.axis = rank}), whole);
}

}  // namespace layers
}  // namespace mirrorflow
