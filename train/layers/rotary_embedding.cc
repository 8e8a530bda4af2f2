// SPDX-License-Identifier: Apache-2.0
#include "train/layers/rotary_embedding.h"

#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/binary.h"
#include "ops/cast.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/reshape.h"
#include "ops/split.h"
#include "train/layers/layer_support.h"
#include "train/numeric_options.h"

namespace mirrorflow {
namespace layers {
namespace {

struct Rotations {
  Output cosines, sines;  // [n, d / 2], or [n, 1, d / 2] for heads
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
  const auto constant = [&](const std::vector<float>& values) {
    const Output c =
        ops::Const(s, Tensor::Of<float>(heads ? Shape({n, 1, half}) : Shape({n, half}), values));
    return x.dtype() == DT_FLOAT ? c : ops::Cast(s, c, x.dtype());
  };
  return {constant(cosines), constant(sines)};
}

}  // namespace

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
    return Fail(s, absl::StrCat("rotary_embedding: expected an even last dimension, got shape ",
                                shape.ToString()));
  }
  Shape pairs = shape;  // for interleaved pairs
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
