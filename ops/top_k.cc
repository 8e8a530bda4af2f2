// SPDX-License-Identifier: Apache-2.0
#include "ops/top_k.h"

#include <limits>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/binary.h"
#include "ops/constant.h"
#include "ops/one_hot.h"
#include "ops/reduction.h"
#include "ops/registry.h"
#include "ops/reshape.h"
#include "ops/shape_ops.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"
#include "ops/strided_slice.h"

namespace mirrorflow {
namespace {

absl::Status TopKShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const std::optional<int64_t> k, CountInput(c, 1));
  MF_ASSIGN_OR_RETURN(Shape shape, c.WithRankAtLeast(0, 1));
  if (shape.unknown_rank()) return absl::OkStatus();
  const int last = shape.rank() - 1;
  if (shape.dim(last) != kUnknownDim && k.value_or(0) > shape.dim(last)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "k must be at most the size of the last dimension of ", shape.ToString(), ", got ", *k));
  }
  const bool small_index = c.attr<DataType>("index_type") == DT_INT32;
  if (small_index && shape.dim(last) > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat("the last dimension of ", shape.ToString(),
                                                   " is too large for int32 indices"));
  }
  shape.set_dim(last, k.value_or(kUnknownDim));
  return SetOutputs(c, {shape, shape});
}

// The last dimension must not be sharded, because its elements are compared with one another.
absl::StatusOr<ShardingRule> TopKSharding(const ShardContext& c) {
  std::string letters = LettersFor(c.input(0));
  letters.back() = '.';
  return ShardingRule{.dims = absl::StrCat(letters, ",*->", letters, ",", letters)};
}

// TensorFlow scatters into one long vector. Products with one-hot matrices, used here, preserve the
// rows and therefore their sharding.
absl::StatusOr<std::vector<Output>> TopKGrad(const GradContext& c) {
  if (!c.dy[0].valid()) return std::vector<Output>(2);
  const Scope& s = c.scope;
  const Output input = c.op.input(0);
  const Shape shape = s.shape(input);
  if (shape.unknown_rank()) {
    return absl::InvalidArgumentError("the gradient requires an input of known rank");
  }
  const int last = shape.rank() - 1;
  const Output depth = ops::ElementOf(s, ops::Shape(s, input), last);
  const Output one = ops::ScalarConst(s, input.dtype(), 1),
               zero = ops::ScalarConst(s, input.dtype(), 0);
  const Output one_hot = ops::OneHot(s, c.op.output(1), depth, one, zero);
  const Output dy = ops::ExpandDims(s, c.dy[0], int64_t{-1});
  return std::vector<Output>{ops::Sum(s, ops::Mul(s, one_hot, dy), {last}), Output()};
}

}  // namespace

void RegisterTopK(OpRegistry& ops) {
  ops.Define("TopKV2")
      .Doc("the k largest elements along the last dimension, and their indices")
      .Input("input: T")
      .StaticInput("k: Tk")
      .Output("values: T")
      .Output("indices: index_type")
      .Attr("sorted: bool = true")
      .Attr("T: {half, bfloat16, float, double, int32, int64, uint8}")
      .Attr("Tk: {int32, int64} = int32")
      .Attr("index_type: {int32, int64} = int32")
      .Shape(TopKShape)
      .Sharding(TopKSharding)
      .Gradient(TopKGrad);
}

namespace ops {

TopKV2Outputs TopKV2(const Scope& scope, Output input, Output k, const TopKV2Options& options) {
  const std::vector<Output> outputs = OutputsOf(Build(scope, "TopKV2", {input, k})
                                                    .Attr("sorted", options.sorted)
                                                    .Attr("index_type", options.index_type)
                                                    .Finish(),
                                                2);
  return {.values = outputs[0], .indices = outputs[1]};
}

TopKV2Outputs TopKV2(const Scope& scope, Output input, int64_t k, const TopKV2Options& options) {
  return TopKV2(scope, input, OperandConst(scope, "k", k), options);
}

}  // namespace ops
}  // namespace mirrorflow
