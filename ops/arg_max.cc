// SPDX-License-Identifier: Apache-2.0
#include "ops/arg_max.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "ops/constant.h"
#include "ops/registry.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"

namespace mirrorflow {
namespace {

absl::Status ArgShape(ShapeContext& c) {
  MF_RETURN_IF_ERROR(c.WithRank(1, 0).status());
  MF_ASSIGN_OR_RETURN(const Shape in, c.WithRankAtLeast(0, 1));
  MF_ASSIGN_OR_RETURN(const std::optional<int64_t> dimension, IntegerInput(c, 1));
  if (in.unknown_rank()) return absl::OkStatus();
  if (!dimension.has_value()) return SetOutput(c, Shape::UnknownDims(in.rank() - 1));
  MF_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(*dimension, in.rank(), "dimension"));
  if (in.dim(axis) == 0) {
    return absl::InvalidArgumentError(absl::StrCat("dimension ", axis,
                                                   " is empty; expected at least one element, got "
                                                   "shape ",
                                                   in.ToString()));
  }
  Shape out;
  for (int i = 0; i < in.rank(); ++i) {
    if (i != axis) out.AddDim(in.dim(i));
  }
  return SetOutput(c, std::move(out));
}

// The reduced dimension must not be sharded, because indices along it would be local.
absl::StatusOr<ShardingRule> ArgSharding(const ShardContext& c) {
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, c.integers(1));
  MF_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axes[0], c.input(0).rank(), "dimension"));
  std::string in = LettersFor(c.input(0)), out = in;
  in[axis] = '.';
  out.erase(axis, 1);
  return ShardingRule{.dims = absl::StrCat(in, ",*->", out)};
}

void Define(OpRegistry& ops, absl::string_view name, absl::string_view which) {
  ops.Define(name)
      .Doc(absl::StrCat("output = the index of the ", which,
                        " element along `dimension`, or of the first one if several are equal"))
      .Input("input: T")
      .StaticInput("dimension: Tidx")
      .Output("output: output_type")
      .Attr("T: {half, bfloat16, float, double, int32, int64, uint8, bool}")
      .Attr("Tidx: {int32, int64} = int32")
      .Attr("output_type: {int32, int64} = int64")
      .Shape(ArgShape)
      .Sharding(ArgSharding)
      .NoGradient("the output is an integer");
}

}  // namespace

void RegisterArgMax(OpRegistry& ops) {
  Define(ops, "ArgMax", "largest");
  Define(ops, "ArgMin", "smallest");
}

namespace ops {

Output ArgMax(const Scope& scope, Output input, Output dimension, const ArgMaxOptions& options) {
  return Build(scope, "ArgMax", {input, dimension}).Attr("output_type", options.output_type).One();
}

Output ArgMax(const Scope& scope, Output input, int64_t dimension, const ArgMaxOptions& options) {
  return ArgMax(scope, input, OperandConst(scope, "dimension", dimension), options);
}

Output ArgMin(const Scope& scope, Output input, Output dimension, const ArgMaxOptions& options) {
  return Build(scope, "ArgMin", {input, dimension}).Attr("output_type", options.output_type).One();
}

Output ArgMin(const Scope& scope, Output input, int64_t dimension, const ArgMaxOptions& options) {
  return ArgMin(scope, input, OperandConst(scope, "dimension", dimension), options);
}

}  // namespace ops
}  // namespace mirrorflow
