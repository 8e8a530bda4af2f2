// SPDX-License-Identifier: Apache-2.0
#include "ops/tile.h"

#include <optional>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/broadcast_gradient.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/reduction.h"
#include "ops/registry.h"
#include "ops/reshape.h"
#include "ops/shape_ops.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"

namespace mirrorflow {
namespace {

absl::Status TileShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const Shape multiples, c.WithRank(1, 1));
  Shape input = c.input(0);
  if (multiples.dim(0) != kUnknownDim) {
    if (!input.unknown_rank() && input.rank() != multiples.dim(0)) {
      return absl::InvalidArgumentError(absl::StrCat("multiples must have one element for each ",
                                                     "dimension of input ", input.ToString(),
                                                     ", got ", multiples.dim(0)));
    }
    if (multiples.dim(0) > kMaxRank) {
      return absl::InvalidArgumentError(absl::StrCat("multiples must have at most ", kMaxRank,
                                                     " elements, got ", multiples.dim(0)));
    }
    input = input.unknown_rank() ? Shape::UnknownDims(multiples.dim(0)) : input;
  }
  c.set_output(0, input.unknown_rank() ? input : Shape::UnknownDims(input.rank()));
  const std::optional<KnownElements> known = ElementsOf(c, 1);
  if (!known.has_value()) return absl::OkStatus();
  Shape output = input;
  for (int d = 0; d < input.rank(); ++d) {
    const int64_t multiple = (*known)[d].value_or(kUnknownDim);
    if ((*known)[d].has_value() && multiple < 0) {
      return absl::InvalidArgumentError(absl::StrCat("multiples must be >= 0, got ", multiple));
    }
    if (multiple == kUnknownDim || input.dim(d) == kUnknownDim) {
      output.set_dim(d, multiple == 1 ? input.dim(d) : kUnknownDim);
      continue;
    }
    MF_ASSIGN_OR_RETURN(const int64_t size, CheckedMultiply(input.dim(d), multiple));
    output.set_dim(d, size);
  }
  return SetOutput(c, output);
}

absl::Status BroadcastToShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(Shape target, SizesInput(c, 1, "shape"));
  const Shape& input = c.input(0);
  if (!target.unknown_rank() && !input.unknown_rank()) {
    const int offset = target.rank() - input.rank();
    for (int d = 0; d < input.rank(); ++d) {
      if (offset < 0 ||
          (input.dim(d) != 1 && input.dim(d) != kUnknownDim &&
           target.dim(offset + d) != kUnknownDim && target.dim(offset + d) != input.dim(d))) {
        return absl::InvalidArgumentError(absl::StrCat(
            "input ", input.ToString(), " does not broadcast to shape ", target.ToString()));
      }
      if (input.dim(d) != 1 && input.dim(d) != kUnknownDim)
        target.set_dim(offset + d, input.dim(d));
    }
  }
  return SetOutput(c, target);
}

// The rule for Tile and BroadcastTo. An unchanged dimension keeps its letter. A dimension that
// repeats a single element has a letter only in the output, so each replica creates the rows that
// it needs. No other dimension can be sharded, because that would permute its rows.
absl::StatusOr<ShardingRule> RepeatSharding(const ShardContext& c) {
  const Shape &in = c.input(0), &out = c.output(0);
  const std::string from = AlignedTerm(in, out);
  std::string to = LettersFor(out);
  for (int d = 0; d < in.rank(); ++d) {
    if (from[d] == '.' && in.dim(d) != 1) to[out.rank() - in.rank() + d] = '.';
  }
  return MoveSharding(c, absl::StrCat(from, ",.->", to), {0});
}

// Returns the product of dimensions [first, last), or kUnknownDim if any of them is unknown.
int64_t ProductOf(const Shape& shape, int first, int last) {
  int64_t product = 1;
  for (int d = first; d < last; ++d) {
    if (shape.dim(d) == kUnknownDim) return kUnknownDim;
    product *= shape.dim(d);
  }
  return product;
}

// Sums dy over the copies, one dimension at a time. Reshapes dy to [before, copies, size, after]
// each time, because splitting all dimensions at once would exceed kMaxRank. Returns an invalid
// output if too little is known.
Output SumCopies(const Scope& s, Output dy, const Shape& in, absl::Span<const int64_t> copies) {
  Shape left = in;  // dimensions before the current one still have their copies
  for (int d = 0; d < in.rank(); ++d) {
    if (in.dim(d) != kUnknownDim) left.set_dim(d, in.dim(d) * copies[d]);
  }
  for (int d = in.rank() - 1; d >= 0; --d) {
    left.set_dim(d, in.dim(d));
    if (copies[d] == 1) continue;
    const Shape split(
        {ProductOf(left, 0, d), copies[d], in.dim(d), ProductOf(left, d + 1, in.rank())});
    if (!ops::IsReshapeTarget(split)) return Output();
    dy = ops::Sum(s, ops::Reshape(s, dy, split), {1});
  }
  return dy;
}

// Splits each dimension of dy into [multiple, size] and sums over the copies.
absl::StatusOr<std::vector<Output>> TileGrad(const GradContext& c) {
  const Scope& s = c.scope;
  const Output x = c.op.input(0), multiples = c.op.input(1);
  const Shape in = s.shape(x);
  const Tensor known = s.graph().values().at(multiples).constant;
  Shape split;
  std::vector<int64_t> axes;
  if (known.has_value() && !in.unknown_rank()) {
    MF_ASSIGN_OR_RETURN(const std::vector<int64_t> copies, IntegersOf(known));
    for (int d = 0; d < in.rank(); ++d) {
      if (copies[d] != 1) {
        axes.push_back(split.rank());
        split.AddDim(copies[d]);
      }
      if (copies[d] == 1 || in.dim(d) != 1) split.AddDim(in.dim(d));
    }
    if (split.rank() > kMaxRank) {
      const Output sum = SumCopies(s, c.dy[0], in, copies);
      if (sum.valid()) return std::vector<Output>{ops::ReshapeLike(s, sum, x), Output()};
    } else if (ops::IsReshapeTarget(split)) {
      const Output sum = ops::Sum(s, ops::Reshape(s, c.dy[0], split), axes);
      return std::vector<Output>{ops::ReshapeLike(s, sum, x), Output()};
    }
  }
  const Output pairs =
      ops::Pack(s, {multiples, ops::Shape(s, x, {.out_type = multiples.dtype()})}, {.axis = 1});
  const Output dims = ops::Reshape(s, pairs, {-1});
  const Output every_other = ops::Range(s, ops::ScalarConst(s, DT_INT32, 0), ops::Size(s, dims),
                                        ops::ScalarConst(s, DT_INT32, 2));
  const Output sum = ops::Sum(s, ops::Reshape(s, c.dy[0], dims), every_other);
  return std::vector<Output>{ops::ReshapeLike(s, sum, x), Output()};
}

absl::StatusOr<std::vector<Output>> BroadcastToGrad(const GradContext& c) {
  const Scope& s = c.scope;
  const Output x = c.op.input(0);
  const Shape in = s.shape(x), out = s.shape(c.op.output(0));
  Output axes;
  if (in.unknown_rank() || out.unknown_rank() || absl::c_linear_search(in.dims(), kUnknownDim)) {
    const Output shape = ops::Shape(s, x, {.out_type = c.op.input(1).dtype()});
    axes = ops::BroadcastGradientArgs(s, shape, c.op.input(1)).r0;
  } else {
    std::vector<int64_t> repeated;
    const int offset = out.rank() - in.rank();
    for (int d = 0; d < out.rank(); ++d) {
      if (d < offset || (in.dim(d - offset) == 1 && out.dim(d) != 1)) repeated.push_back(d);
    }
    if (repeated.empty()) return std::vector<Output>{c.dy[0], Output()};
    axes = ops::VectorConst(s, repeated);
  }
  return std::vector<Output>{ops::ReshapeLike(s, ops::Sum(s, c.dy[0], axes), x), Output()};
}

}  // namespace

void RegisterTile(OpRegistry& ops) {
  ops.Define("Tile")
      .Doc("the input repeated `multiples[d]` times along each dimension d")
      .Input("input: T")
      .StaticInput("multiples: Tmultiples")
      .Output("output: T")
      .Attr("T: type")
      .Attr("Tmultiples: {int32, int64} = int32")
      .Traits(kKeepsPrecision)
      .Shape(TileShape)
      .Sharding(RepeatSharding)
      .Gradient(TileGrad);
  ops.Define("BroadcastTo")
      .Doc("the input broadcast to `shape` by NumPy's rules")
      .Input("input: T")
      .StaticInput("shape: Tidx")
      .Output("output: T")
      .Attr("T: type")
      .Attr("Tidx: {int32, int64} = int32")
      .Shape(BroadcastToShape)
      .Sharding(RepeatSharding)
      .Gradient(BroadcastToGrad);
}

namespace ops {

Output Tile(const Scope& scope, Output input, Output multiples) {
  return Apply(scope, "Tile", {input, multiples});
}

Output BroadcastTo(const Scope& scope, Output input, Output shape) {
  return Apply(scope, "BroadcastTo", {input, shape});
}

}  // namespace ops
}  // namespace mirrorflow
