// SPDX-License-Identifier: Apache-2.0
#include "train/layers/attention.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/attention.h"
#include "ops/binary.h"
#include "ops/cast.h"
#include "ops/constant.h"
#include "ops/reshape.h"
#include "ops/softmax.h"
#include "ops/transpose.h"
#include "train/layers/dense.h"
#include "train/layers/layer_support.h"
#include "train/numeric_options.h"

namespace mirrorflow {
namespace layers {
namespace {

// Returns an n x m mask: 0 up to and on the diagonal, and after it a number so negative that
// softmax gives 0.
Output CausalMask(const Scope& scope, int64_t n, int64_t m, DataType dtype) {
  constexpr float kOut = -1e9f;
  std::vector<float> values(n * m, 0.0f);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = i + 1; j < m; ++j) values[i * m + j] = kOut;
  }
  const Output mask = ops::Const(scope, Tensor::Of<float>({n, m}, values));
  return dtype == DT_FLOAT ? mask : ops::Cast(scope, mask, dtype);
}

// Rearranges [batch, n, width] to [batch, heads, n, depth], where width = heads * depth.
Output SplitHeads(const Scope& scope, Output x, int64_t n, int64_t heads, int64_t depth) {
  return ops::Transpose(scope, ops::Reshape(scope, x, Shape({kUnknownDim, n, heads, depth})),
                        {0, 2, 1, 3});
}

}  // namespace

Output MaskedSoftmax(const Scope& scope, Output logits, double scale, const MaskOptions& options) {
  const Scope s = scope.SubScope("softmax");
  if (!s.ok()) return Output();
  if (!CheckNumbers(s, "softmax", {{"scale", scale, kAnyNumber}})) return Output();
  if (options.causal && !EndsKnown(s, logits, 2, 2)) {
    return Fail(s, absl::StrCat("softmax: expected logits whose last two dimensions are known, ",
                                "got shape ", s.shape(logits).ToString()));
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
    return Fail(s,
                absl::StrCat(options.name, ": expected [batch, n, width] with n known and width ",
                             "a multiple of ", heads, " heads, got shape ", shape.ToString()));
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

}  // namespace layers
}  // namespace mirrorflow
