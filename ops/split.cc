// SPDX-License-Identifier: Apache-2.0
#include "ops/split.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/registry.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

// The operands' indices among the inputs.
struct Operands {
  int value;
  int axis;
};
constexpr Operands kSplit{.value = 1, .axis = 0};
constexpr Operands kSplitV{.value = 0, .axis = 2};

const Operands& OperandsOf(const Node& node) { return node.num_inputs() == 2 ? kSplit : kSplitV; }

using Sizes = absl::InlinedVector<int64_t, 8>;

absl::StatusOr<Sizes> EqualSizes(int64_t dim, int n) {
  if (dim == kUnknownDim) return Sizes(n, kUnknownDim);
  if (dim % n == 0) return Sizes(n, dim / n);
  return absl::InvalidArgumentError(
      absl::StrCat("the dimension must be divisible by num_split ", n, ", got size ", dim));
}

// Returns `given` with a -1 replaced by the remainder of `dim` if `dim` is known.
absl::StatusOr<Sizes> GivenSizes(int64_t dim, absl::Span<const int64_t> given) {
  Sizes sizes(given.begin(), given.end());
  int64_t sum = 0, *rest = nullptr;
  bool fits = true;
  for (int64_t& size : sizes) {
    fits = fits && size >= -1 && (size >= 0 || rest == nullptr);
    if (size < 0) rest = &size;
    fits = fits && !__builtin_add_overflow(sum, size < 0 ? 0 : size, &sum);
  }
  if (dim != kUnknownDim) fits = fits && (rest == nullptr ? sum == dim : sum <= dim);
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat(
        "size_splits must be sizes >= 0 that add up to the dimension (one may be -1); expected a "
        "sum of ",
        dim == kUnknownDim ? "?" : absl::StrCat(dim), ", got [", absl::StrJoin(given, ","), "]"));
  }
  if (rest != nullptr) *rest = dim == kUnknownDim ? kUnknownDim : dim - sum;
  return sizes;
}

absl::StatusOr<Sizes> SizesOf(const ShapeContext& c, int64_t dim) {
  if (c.num_inputs() == 2) return EqualSizes(dim, c.num_outputs());
  MF_ASSIGN_OR_RETURN(const std::optional<std::vector<int64_t>> given, c.integers(1));
  if (!given.has_value()) return Sizes(c.num_outputs(), kUnknownDim);
  return GivenSizes(dim, *given);
}

absl::Status SplitShape(ShapeContext& c) {
  const Operands at = OperandsOf(c.node());
  if (at.value == kSplitV.value) {
    MF_ASSIGN_OR_RETURN(const Shape sizes, c.WithRank(1, 1));
    if (sizes.dim(0) != kUnknownDim && sizes.dim(0) != c.num_outputs()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "size_splits must have num_split ", c.num_outputs(), " elements, got ", sizes.dim(0)));
    }
  }
  MF_ASSIGN_OR_RETURN(const std::optional<int64_t> given_axis, IntegerInput(c, at.axis));
  MF_ASSIGN_OR_RETURN(const Shape value, c.WithRankAtLeast(at.value, 1));
  if (value.unknown_rank()) return absl::OkStatus();
  if (!given_axis.has_value()) {
    for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, Shape::UnknownDims(value.rank()));
    return absl::OkStatus();
  }
  MF_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(*given_axis, value.rank(), "split_dim"));
  MF_ASSIGN_OR_RETURN(const Sizes sizes, SizesOf(c, value.dim(axis)));
  const std::optional<KnownElements> elements =
      value.rank() == 1 ? ElementsOf(c, at.value) : std::nullopt;
  int64_t begin = 0;
  for (int i = 0; i < c.num_outputs(); ++i) {
    Shape piece = value;
    piece.set_dim(axis, sizes[i]);
    c.set_output(i, piece);
    if (!elements.has_value() || sizes[i] == kUnknownDim) continue;
    SetVector(c, i, KnownElements(elements->begin() + begin, elements->begin() + begin + sizes[i]));
    begin += sizes[i];
  }
  return absl::OkStatus();
}

// The axis must not be sharded, because a shard would contain only some of the pieces.
absl::StatusOr<ShardingRule> SplitSharding(const ShardContext& c) {
  const Operands at = OperandsOf(c.node());
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> given, c.integers(at.axis));
  const Shape& value = c.input(at.value);
  MF_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(given[0], value.rank()));
  std::string term = LettersFor(value);
  term[axis] = '.';
  std::vector<std::string> inputs;
  for (int i = 0; i < c.num_inputs(); ++i) {
    inputs.push_back(i == at.value ? term : DotsFor(c.input(i)));
  }
  const std::vector<std::string> outputs(c.num_outputs(), term);
  return MoveSharding(
      c, absl::StrCat(absl::StrJoin(inputs, ","), "->", absl::StrJoin(outputs, ",")), {at.value});
}

absl::StatusOr<std::vector<Output>> SplitGrad(const GradContext& c) {
  const Operands at = OperandsOf(c.op);
  std::vector<Output> pieces(c.dy.begin(), c.dy.end());
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (!pieces[i].valid()) pieces[i] = ops::ZerosLike(c.scope, c.op.output(static_cast<int>(i)));
  }
  std::vector<Output> grads(c.op.num_inputs());
  grads[at.value] =
      pieces.size() == 1 ? pieces[0] : ops::ConcatV2(c.scope, pieces, c.op.input(at.axis));
  return grads;
}

}  // namespace

void RegisterSplit(OpRegistry& ops) {
  ops.Define("Split")
      .Doc("`num_split` pieces of equal size along dimension `split_dim`")
      .StaticInput("split_dim: int32")
      .Input("value: T")
      .Output("output: num_split * T")
      .Attr("num_split: int >= 1")
      .Attr("T: type")
      .Traits(kKeepsPrecision)
      .Shape(SplitShape)
      .Sharding(SplitSharding)
      .Gradient(SplitGrad);
  ops.Define("SplitV")
      .Doc("pieces of sizes `size_splits` along dimension `split_dim`")
      .Input("value: T")
      .StaticInput("size_splits: Tlen")
      .StaticInput("split_dim: int32")
      .Output("output: num_split * T")
      .Attr("num_split: int >= 1")
      .Attr("T: type")
      .Attr("Tlen: {int32, int64} = int64")
      .Traits(kKeepsPrecision)
      .Shape(SplitShape)
      .Sharding(SplitSharding)
      .Gradient(SplitGrad);
}

namespace ops {

std::vector<Output> Split(const Scope& scope, Output value, int64_t num_split, int64_t axis) {
  Node* node = Build(scope, "Split", {OperandConst(scope, "axis", axis), value})
                   .Attr("num_split", num_split)
                   .Finish();
  return OutputsOf(node, num_split);
}

std::vector<Output> SplitV(const Scope& scope, Output value, absl::Span<const int64_t> size_splits,
                           int64_t axis) {
  const int64_t num_split = static_cast<int64_t>(size_splits.size());
  Node* node = Build(scope, "SplitV",
                     {value, VectorConst(scope.ForOperand("size_splits"), size_splits, DT_INT64),
                      OperandConst(scope, "axis", axis)})
                   .Attr("num_split", num_split)
                   .Finish();
  return OutputsOf(node, num_split);
}

}  // namespace ops
}  // namespace mirrorflow
