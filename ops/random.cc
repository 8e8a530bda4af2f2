// SPDX-License-Identifier: Apache-2.0
#include "ops/random.h"

#include "absl/strings/str_cat.h"
#include "ops/binary.h"
#include "ops/constant.h"
#include "ops/registry.h"
#include "ops/select.h"
#include "ops/shape_ops.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"

namespace mirrorflow {
namespace {

struct Row {
  const char* name;
  const char* doc;
};

constexpr Row kRows[] = {
    {"RandomStandardNormal",
     "output = normally distributed random numbers with mean 0 and standard deviation 1"},
    {"RandomUniform", "output = random numbers uniformly distributed in [0, 1)"},
    {"TruncatedNormal",
     "output = normally distributed random numbers within 2 standard deviations"},
};

absl::Status RandomShape(ShapeContext& c) { return SetOutput(c, c.input_as_shape(0)); }

absl::StatusOr<ShardingRule> RandomSharding(const ShardContext& c) {
  return ShardingRule{.dims = absl::StrCat("*->", LettersFor(c.output(0)))};
}

Output BuildRandom(const Scope& scope, absl::string_view op, Output shape, DataType dtype,
                   const ops::RandomOptions& options) {
  return ops::Build(scope, op, {shape})
      .Attr("dtype", dtype)
      .Attr("seed", options.seed)
      .Attr("seed2", options.seed2)
      .One();
}

}  // namespace

void RegisterRandom(OpRegistry& ops) {
  for (const Row& row : kRows) {
    ops.Define(row.name)
        .Doc(row.doc)
        .StaticInput("shape: T")
        .Output("output: dtype")
        .Attr("seed: int = 0")
        .Attr("seed2: int = 0")
        .Attr("dtype: {half, bfloat16, float, double}")
        .Attr("T: {int32, int64}")
        .Traits(kStateful | kRandom)
        .Shape(RandomShape)
        .Sharding(RandomSharding)
        .NoGradient("the random numbers do not depend on the values in shape");
  }
}

namespace ops {

Output RandomUniform(const Scope& scope, Output shape, DataType dtype,
                     const RandomOptions& options) {
  return BuildRandom(scope, "RandomUniform", shape, dtype, options);
}

Output RandomStandardNormal(const Scope& scope, Output shape, DataType dtype,
                            const RandomOptions& options) {
  return BuildRandom(scope, "RandomStandardNormal", shape, dtype, options);
}

Output TruncatedNormal(const Scope& scope, Output shape, DataType dtype,
                       const RandomOptions& options) {
  return BuildRandom(scope, "TruncatedNormal", shape, dtype, options);
}

Output Dropout(const Scope& scope, Output x, double rate, const RandomOptions& options) {
  if (!x.valid()) return Output();
  if (!(rate >= 0 && rate < 1)) {
    scope.Fail(absl::InvalidArgumentError(
        absl::StrCat("Dropout: rate must be at least 0 and below 1, got ", rate)));
    return Output();
  }
  if (!IsFloating(x.dtype())) {
    scope.Fail(absl::InvalidArgumentError(absl::StrCat(
        "Dropout: x must have a floating-point dtype, got ", DataTypeName(x.dtype()))));
    return Output();
  }
  if (rate == 0) return scope.Owns(x) ? x : Output();
  const Scope s = scope.SubScope("dropout");
  const Output scaled = Mul(s, x, ScalarConst(s, x.dtype(), 1 / (1 - rate)));
  const Output random = RandomUniform(s, ShapeOperand(s, x), x.dtype(), options);
  const Output keep = GreaterEqual(s, random, ScalarConst(s, x.dtype(), rate));
  return SelectV2(s, keep, scaled, ScalarConst(s, x.dtype(), 0));
}

}  // namespace ops
}  // namespace mirrorflow
