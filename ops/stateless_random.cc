// SPDX-License-Identifier: Apache-2.0
#include "ops/stateless_random.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/registry.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"

namespace mirrorflow {
namespace {

constexpr char kFloats[] = "{half, bfloat16, float, double} = float";
constexpr char kAllIntegers[] = "{int32, int64, uint32, uint64} = uint64";

// Each row defines two ops: one that takes seeds, and its V2, which takes a key, a counter and an
// algorithm.
struct Row {
  const char* name;
  const char* doc;
  const char* dtype;     // for the op with seeds
  const char* dtype_v2;  // for its V2
  bool has_limits = false;
};

constexpr Row kRows[] = {
    {"StatelessRandomNormal",
     "normally distributed random numbers with mean 0 and standard deviation 1", kFloats, kFloats},
    {"StatelessRandomUniform", "random numbers uniformly distributed in [0, 1)", kFloats, kFloats},
    {"StatelessRandomUniformFullInt",
     "random integers uniformly distributed over all values of their dtype", kAllIntegers,
     kAllIntegers},
    {"StatelessRandomUniformInt", "random integers uniformly distributed in [minval, maxval)",
     "{int32, int64}", "{int32, int64, uint32, uint64}", /*has_limits=*/true},
    {"StatelessTruncatedNormal", "normally distributed random numbers within 2 standard deviations",
     kFloats, kFloats},
};

// Checks that input `i`, called `name`, is a vector of `count` elements, or of at least `count` if
// `or_more`.
absl::Status CheckVector(const ShapeContext& c, int i, absl::string_view name, int64_t count,
                         bool or_more = false) {
  MF_ASSIGN_OR_RETURN(const Shape shape, c.WithRank(i, 1));
  const int64_t n = shape.dim(0);
  if (n == kUnknownDim || n == count || (or_more && n > count)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must have ", or_more ? "at least " : "", count, " elements, got ", n));
}

absl::Status RandomShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(Shape shape, c.input_as_shape(0));
  int i = 1;
  if (c.node().input_index("seed") >= 0) {
    MF_RETURN_IF_ERROR(CheckVector(c, i++, "seed", 2));
  } else {
    MF_RETURN_IF_ERROR(CheckVector(c, i++, "key", 1));
    MF_RETURN_IF_ERROR(CheckVector(c, i++, "counter", 2, /*or_more=*/true));
  }
  // The remaining inputs, the algorithm and the limits, are scalars.
  for (; i < c.node().num_inputs(); ++i) MF_RETURN_IF_ERROR(c.WithRank(i, 0).status());
  return SetOutput(c, std::move(shape));
}

absl::StatusOr<ShardingRule> RandomSharding(const ShardContext& c) {
  std::string operands = "*";
  for (int i = 1; i < c.num_inputs(); ++i) absl::StrAppend(&operands, ",*");
  return ShardingRule{.dims = absl::StrCat(operands, "->", LettersFor(c.output(0)))};
}

absl::Status KeyCounterShape(ShapeContext& c) {
  MF_RETURN_IF_ERROR(CheckVector(c, 0, "seed", 2));
  return SetOutputs(c, {Shape({1}), Shape({2})});
}

// These ops have trait kRandom, because a different dtype gives different numbers, not the same
// numbers in another precision.
void DefineRandom(OpRegistry& ops, const Row& row, bool v2) {
  OpBuilder op = ops.Define(absl::StrCat(row.name, v2 ? "V2" : ""));
  op.Doc(absl::StrCat("output = ", row.doc, v2 ? ", from a key and a counter" : ", from two seeds"))
      .StaticInput(v2 ? "shape: Tshape" : "shape: T");
  if (v2) {
    op.Input("key: uint64").Input("counter: uint64").Input("alg: int32");
  } else {
    op.Input("seed: Tseed");
  }
  if (row.has_limits) op.Input("minval: dtype").Input("maxval: dtype");
  op.Output("output: dtype").Attr(absl::StrCat("dtype: ", v2 ? row.dtype_v2 : row.dtype));
  // In TensorFlow's oldest ops, the limits determine the dtype, and the dtype of `shape` has no
  // default.
  op.Attr(absl::StrCat(v2 ? "Tshape" : "T", ": {int32, int64}",
                       row.has_limits && !v2 ? "" : " = int32"));
  if (!v2) op.Attr("Tseed: {int32, int64} = int64");
  op.Traits(kRandom)
      .Shape(RandomShape)
      .Sharding(RandomSharding)
      .NoGradient("random numbers do not depend smoothly on their operands");
}

Output ByCounter(const Scope& scope, absl::string_view op, Output shape,
                 const ops::KeyCounter& from, Output alg, DataType dtype) {
  return ops::Build(scope, op, {shape, from.key, from.counter, alg}).Attr("dtype", dtype).One();
}

}  // namespace

void RegisterStatelessRandom(OpRegistry& ops) {
  for (const Row& row : kRows) {
    DefineRandom(ops, row, /*v2=*/false);
    DefineRandom(ops, row, /*v2=*/true);
  }
  ops.Define("StatelessRandomGetAlg")
      .Doc("alg = 1, which denotes the Philox algorithm")
      .Output("alg: int32")
      .Shape(ScalarShape)
      .Sharding(ReplicatedSharding)
      .NoGradient("it has no input");
  ops.Define("StatelessRandomGetKeyCounter")
      .Doc("the key and counter of the random stream that two seeds select")
      .Input("seed: Tseed")
      .Output("key: uint64")
      .Output("counter: uint64")
      .Attr("Tseed: {int32, int64} = int64")
      .Shape(KeyCounterShape)
      .Sharding(ReplicatedSharding)
      .NoGradient("seeds are integers");
}

namespace ops {

KeyCounter StatelessRandomGetKeyCounter(const Scope& scope, Output seed) {
  const std::vector<Output> outputs =
      OutputsOf(Build(scope, "StatelessRandomGetKeyCounter", {seed}).Finish(), 2);
  return {.key = outputs[0], .counter = outputs[1]};
}

Output StatelessRandomGetAlg(const Scope& scope) {
  return Build(scope, "StatelessRandomGetAlg").One();
}

Output StatelessRandomUniform(const Scope& scope, Output shape, Output seed, DataType dtype) {
  return Build(scope, "StatelessRandomUniform", {shape, seed}).Attr("dtype", dtype).One();
}

Output StatelessRandomUniformV2(const Scope& scope, Output shape, const KeyCounter& from,
                                Output alg, DataType dtype) {
  return ByCounter(scope, "StatelessRandomUniformV2", shape, from, alg, dtype);
}

Output StatelessRandomNormal(const Scope& scope, Output shape, Output seed, DataType dtype) {
  return Build(scope, "StatelessRandomNormal", {shape, seed}).Attr("dtype", dtype).One();
}

Output StatelessRandomNormalV2(const Scope& scope, Output shape, const KeyCounter& from, Output alg,
                               DataType dtype) {
  return ByCounter(scope, "StatelessRandomNormalV2", shape, from, alg, dtype);
}

Output StatelessTruncatedNormal(const Scope& scope, Output shape, Output seed, DataType dtype) {
  return Build(scope, "StatelessTruncatedNormal", {shape, seed}).Attr("dtype", dtype).One();
}

Output StatelessTruncatedNormalV2(const Scope& scope, Output shape, const KeyCounter& from,
                                  Output alg, DataType dtype) {
  return ByCounter(scope, "StatelessTruncatedNormalV2", shape, from, alg, dtype);
}

Output StatelessRandomUniformInt(const Scope& scope, Output shape, Output seed, Output minval,
                                 Output maxval) {
  return Apply(scope, "StatelessRandomUniformInt", {shape, seed, minval, maxval});
}

Output StatelessRandomUniformIntV2(const Scope& scope, Output shape, const KeyCounter& from,
                                   Output alg, Output minval, Output maxval) {
  return Apply(scope, "StatelessRandomUniformIntV2",
               {shape, from.key, from.counter, alg, minval, maxval});
}

Output StatelessRandomUniformFullInt(const Scope& scope, Output shape, Output seed,
                                     DataType dtype) {
  return Build(scope, "StatelessRandomUniformFullInt", {shape, seed}).Attr("dtype", dtype).One();
}

Output StatelessRandomUniformFullIntV2(const Scope& scope, Output shape, const KeyCounter& from,
                                       Output alg, DataType dtype) {
  return ByCounter(scope, "StatelessRandomUniformFullIntV2", shape, from, alg, dtype);
}

}  // namespace ops
}  // namespace mirrorflow
