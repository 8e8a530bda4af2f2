// SPDX-License-Identifier: Apache-2.0
#include "ops/slice.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/binary.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/reduction.h"
#include "ops/registry.h"
#include "ops/reshape.h"
#include "ops/shape_ops.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

// Returns how many elements Slice takes from one dimension of size `dim`, which may be unknown.
absl::StatusOr<int64_t> SlicedSize(int64_t dim, std::optional<int64_t> begin,
                                   std::optional<int64_t> size, int d) {
  const bool dim_known = dim != kUnknownDim;
  const int64_t from = begin.value_or(0), wanted = size.value_or(kUnknownDim);
  const bool inside = from >= 0 && wanted >= -1 &&
                      (!dim_known || (from <= dim && (wanted == -1 || wanted <= dim - from)));
  if (!inside) {
    return absl::InvalidArgumentError(absl::StrCat(
        "begin and size of dimension ", d, " must select elements inside it; expected at most ",
        dim_known ? absl::StrCat(dim) : "?", " elements, got ", wanted, " (from index ", from,
        ")"));
  }
  if (wanted != -1) return wanted;
  return size.has_value() && begin.has_value() && dim_known ? dim - from : kUnknownDim;
}

absl::Status SliceShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(Shape vector, c.WithRank(1, 1));
  MF_ASSIGN_OR_RETURN(const Shape size_shape, c.WithRank(2, 1));
  MF_ASSIGN_OR_RETURN(vector, vector.MergeWith(size_shape));
  Shape input = c.input(0);
  if (vector.dim(0) != kUnknownDim) {
    MF_ASSIGN_OR_RETURN(input, c.WithRank(0, vector.dim(0)));
  }
  if (input.unknown_rank()) return absl::OkStatus();
  const int rank = input.rank();
  const KnownElements unknown(rank);
  const KnownElements begin = ElementsOf(c, 1).value_or(unknown);
  const KnownElements size = ElementsOf(c, 2).value_or(unknown);
  Shape output = Shape::UnknownDims(rank);
  for (int d = 0; d < rank; ++d) {
    MF_ASSIGN_OR_RETURN(const int64_t n, SlicedSize(input.dim(d), begin[d], size[d], d));
    output.set_dim(d, n);
  }
  c.set_output(0, output);
  const std::optional<KnownElements> values = ElementsOf(c, 0);
  if (rank == 1 && values.has_value() && begin[0].has_value() && output.IsFullyDefined()) {
    const auto first = values->begin() + *begin[0];
    SetVector(c, 0, KnownElements(first, first + output.dim(0)));
  }
  return absl::OkStatus();
}

// A dimension that is sliced in full keeps its letter.
absl::StatusOr<ShardingRule> SliceSharding(const ShardContext& c) {
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> begin, c.integers(1));
  std::string term = AlignedTerm(c.input(0), c.output(0));
  for (int d = 0; d < c.input(0).rank(); ++d) {
    if (begin[d] != 0) term[d] = '.';
  }
  return MoveSharding(c, absl::StrCat(term, ",.,.->", term), {0});
}

// Returns the constant value of an operand, or an empty tensor if the value is not known while the
// graph is built.
const Tensor& ConstantOf(const Scope& s, const Output& value) {
  return s.graph().values().at(value).constant;
}

Output PaddingsConst(const Scope& s, const std::vector<int64_t>& flat) {
  const int64_t rank = static_cast<int64_t>(flat.size()) / 2;
  return ops::Const(s, Tensor::Of<int64_t>(Shape({rank, 2}), flat));
}

absl::StatusOr<std::vector<Output>> SliceGrad(const GradContext& c) {
  const Scope& s = c.scope;
  const Output x = c.op.input(0), begin = c.op.input(1), size = c.op.input(2);
  const Shape in = s.shape(x);
  const Tensor known_begin = ConstantOf(s, begin), known_size = ConstantOf(s, size);
  if (known_begin.has_value() && known_size.has_value() && !in.unknown_rank()) {
    MF_ASSIGN_OR_RETURN(const std::vector<int64_t> from, IntegersOf(known_begin));
    MF_ASSIGN_OR_RETURN(const std::vector<int64_t> count, IntegersOf(known_size));
    std::vector<int64_t> paddings;
    for (int d = 0; d < in.rank() && (count[d] == -1 || in.dim(d) != kUnknownDim); ++d) {
      const int64_t rest = count[d] == -1 ? 0 : in.dim(d) - from[d] - count[d];
      paddings.insert(paddings.end(), {from[d], rest});
    }
    if (static_cast<int>(paddings.size()) == 2 * in.rank()) {
      const Output dx = ops::Pad(s, c.dy[0], PaddingsConst(s, paddings));
      return std::vector<Output>{dx, Output(), Output()};
    }
  }
  const ops::ShapeOptions like_begin = {.out_type = begin.dtype()};
  const Output rest = ops::Sub(
      s, ops::Sub(s, ops::Shape(s, x, like_begin), ops::Shape(s, c.dy[0], like_begin)), begin);
  const Output dx = ops::Pad(s, c.dy[0], ops::Pack(s, {begin, rest}, {.axis = 1}));
  return std::vector<Output>{dx, Output(), Output()};
}

absl::Status PadShape(ShapeContext& c) {  // for Pad and PadV2
  if (c.num_inputs() == 3) MF_RETURN_IF_ERROR(c.WithRank(2, 0).status());
  MF_ASSIGN_OR_RETURN(Shape output, ShapeBeforePadding(c));
  MF_ASSIGN_OR_RETURN(const std::optional<std::vector<int64_t>> values, c.integers(1));
  for (int d = 0; d < output.rank(); ++d) {
    const int64_t size = output.dim(d);
    output.set_dim(d, kUnknownDim);
    if (!values.has_value()) continue;
    const int64_t before = (*values)[2 * d], after = (*values)[2 * d + 1];
    // The sum of three values of at most 2^61 cannot overflow.
    constexpr int64_t kLimit = int64_t{1} << 61;
    if (before < 0 || after < 0 || before > kLimit || after > kLimit || size > kLimit) {
      return absl::InvalidArgumentError(absl::StrCat("paddings of dimension ", d,
                                                     " must be >= 0 and at most 2^61, got ", before,
                                                     " and ", after));
    }
    if (size != kUnknownDim) output.set_dim(d, before + size + after);
  }
  return SetOutput(c, output);
}

absl::StatusOr<ShardingRule> PadSharding(const ShardContext& c) {
  const std::string term = AlignedTerm(c.input(0), c.output(0));
  if (c.num_inputs() == 3) return MoveSharding(c, absl::StrCat(term, ",..,->", term), {0, 2});
  return MoveSharding(c, absl::StrCat(term, ",..->", term), {0});
}

absl::StatusOr<std::vector<Output>> PadGrad(const GradContext& c) {
  const Scope& s = c.scope;
  const Output x = c.op.input(0), paddings = c.op.input(1);
  const Shape in = s.shape(x);
  const Tensor known = ConstantOf(s, paddings);
  if (known.has_value() && !in.unknown_rank()) {
    MF_ASSIGN_OR_RETURN(const std::vector<int64_t> flat, IntegersOf(known));
    std::vector<int64_t> begin, size;
    for (int d = 0; d < in.rank() && (flat[2 * d + 1] == 0 || in.dim(d) != kUnknownDim); ++d) {
      begin.push_back(flat[2 * d]);
      size.push_back(in.dim(d));  // an unknown size is -1, which means the rest
    }
    if (static_cast<int>(begin.size()) == in.rank()) {
      const Output dx =
          ops::Slice(s, c.dy[0], ops::VectorConst(s, begin), ops::VectorConst(s, size));
      return std::vector<Output>{dx, Output()};
    }
  }
  const Output column = ops::Slice(s, paddings, ops::VectorConst(s, {0, 0}),  //
                                   ops::VectorConst(s, {-1, 1}));
  const Output dx = ops::Slice(s, c.dy[0], ops::Reshape(s, column, {-1}),
                               ops::Shape(s, x, {.out_type = paddings.dtype()}));
  return std::vector<Output>{dx, Output()};
}

// The gradient of constant_values is the sum of dy outside the input.
absl::StatusOr<std::vector<Output>> PadV2Grad(const GradContext& c) {
  const Scope& s = c.scope;
  MF_ASSIGN_OR_RETURN(std::vector<Output> grads, PadGrad(c));
  const Output inside = ops::ZerosLike(s, c.op.input(0)), paddings = c.op.input(1);
  const Output one = ops::ScalarConst(s, c.dy[0].dtype(), 1);
  const Output outside = ops::Mul(s, c.dy[0], ops::PadV2(s, inside, paddings, one));
  grads.push_back(ops::Sum(s, outside));
  return grads;
}

}  // namespace

void RegisterSlice(OpRegistry& ops) {
  ops.Define("Slice")
      .Doc("output[i] = input[begin + i], with `size` elements in each dimension")
      .Input("input: T")
      .StaticInput("begin: Index")
      .StaticInput("size: Index")
      .Output("output: T")
      .Attr("T: type")
      .Attr("Index: {int32, int64}")
      .Traits(kKeepsPrecision)
      .Shape(SliceShape)
      .Sharding(SliceSharding)
      .Gradient(SliceGrad);
  ops.Define("Pad")
      .Doc("the input, padded with paddings[d] zeros before and after each dimension d")
      .Input("input: T")
      .StaticInput("paddings: Tpaddings")
      .Output("output: T")
      .Attr("T: type")
      .Attr("Tpaddings: {int32, int64} = int32")
      .Traits(kKeepsPrecision)
      .Shape(PadShape)
      .Sharding(PadSharding)
      .Gradient(PadGrad);
  ops.Define("PadV2")
      .Doc(
          "the input, padded with paddings[d] copies of constant_values before and after each "
          "dimension d")
      .Input("input: T")
      .StaticInput("paddings: Tpaddings")
      .Input("constant_values: T")
      .Output("output: T")
      .Attr("T: type")
      .Attr("Tpaddings: {int32, int64} = int32")
      .Traits(kKeepsPrecision)
      .Shape(PadShape)
      .Sharding(PadSharding)
      .Gradient(PadV2Grad);
}

namespace ops {

Output Slice(const Scope& scope, Output input, Output begin, Output size) {
  return Apply(scope, "Slice", {input, begin, size});
}

Output Pad(const Scope& scope, Output input, Output paddings) {
  return Apply(scope, "Pad", {input, paddings});
}

Output PadV2(const Scope& scope, Output input, Output paddings, Output constant_values) {
  return Apply(scope, "PadV2", {input, paddings, constant_values});
}

}  // namespace ops
}  // namespace mirrorflow
