// SPDX-License-Identifier: Apache-2.0
#include "ops/random.h"

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/registry.h"
#include "ops/sharding_rules.h"

namespace mirrorflow {
namespace {

struct Row {
  const char* name;
  const char* doc;
};

constexpr Row kRows[] = {
    {"RandomStandardNormal",
     "output = normally distributed random numbers, mean 0, standard deviation 1"},
    {"RandomUniform", "output = random numbers uniformly distributed in [0, 1)"},
    {"TruncatedNormal",
     "output = normally distributed random numbers within 2 standard deviations"},
};

absl::Status RandomShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(Shape shape, c.input_as_shape(0));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

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

}  // namespace ops
}  // namespace mirrorflow
