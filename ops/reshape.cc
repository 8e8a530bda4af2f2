// SPDX-License-Identifier: Apache-2.0
#include "ops/reshape.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/constant.h"
#include "ops/registry.h"
#include "ops/shape_ops.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"

namespace mirrorflow {
namespace {

// Sets output 0 to a view of input 0. Known elements carry over, because their order does not
// change.
void SetView(ShapeContext& c, const Shape& output) {
  c.set_output(0, output);
  if (!output.IsFullyDefined()) return;
  if (const Tensor* value = c.constant(0)) {
    c.set_constant(0, value->Reshaped(output));
  } else if (const auto elements = ElementsOf(c, 0)) {
    if (output.rank() == 1) SetVector(c, 0, *elements);
  }
}

// The product of the known dimensions, and the number of unknown dimensions.
struct KnownSize {
  int64_t product = 1;
  int num_unknown = 0;
};

KnownSize SizeOf(const Shape& shape) {
  KnownSize size;
  for (int64_t d : shape.dims()) {
    if (d == kUnknownDim) {
      ++size.num_unknown;
    } else {
      size.product *= d;  // cannot overflow: the shape has been validated
    }
  }
  return size;
}

absl::Status SizeMismatch(const Shape& input, const Shape& target) {
  return absl::InvalidArgumentError(absl::StrCat("shape must have as many elements as the input ",
                                                 "of shape ", input.ToString(), ", got ",
                                                 target.ToString()));
}

// Returns `target` with its one unknown dimension filled in, if the input determines it. `inferred`
// is true if the user gave that dimension as -1, and false if its size is not yet known.
absl::StatusOr<Shape> FillTarget(const Shape& input, Shape target, bool inferred) {
  if (input.unknown_rank() || target.unknown_rank()) return target;
  const KnownSize from = SizeOf(input), to = SizeOf(target);
  if (inferred && to.num_unknown > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape must have at most one -1, got ", target.ToString()));
  }
  if (inferred && to.num_unknown == 1 && to.product == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the -1 in shape ", target.ToString(),
                     " cannot be inferred, because another dimension is 0"));
  }
  if (from.num_unknown > 0 && to.num_unknown > 0) return target;
  // One side is fully known, and the known product of the other side must divide the number of
  // elements.
  const int64_t whole = from.num_unknown == 0 ? from.product : to.product;
  const int64_t part = from.num_unknown == 0 ? to.product : from.product;
  const bool both = from.num_unknown == 0 && to.num_unknown == 0;
  const bool fits = both || part == 0 ? whole == part : whole % part == 0;
  if (!fits) return SizeMismatch(input, target);
  if (to.num_unknown == 1 && part != 0) {
    for (int d = 0; d < target.rank(); ++d) {
      if (target.dim(d) == kUnknownDim) target.set_dim(d, whole / part);
    }
  }
  return target;
}

absl::Status ReshapeShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(Shape target, c.input_as_shape(1));
  MF_RETURN_IF_ERROR(target.Validate(c.node().output_dtype(0)));
  MF_ASSIGN_OR_RETURN(target, FillTarget(c.input(0), std::move(target), c.constant(1) != nullptr));
  SetView(c, target);
  return absl::OkStatus();
}

// Matches the dimensions of both sides in minimal groups of equal product. Within a group, rows of
// the outermost dimension are contiguous runs of elements on both sides, so that dimension has a
// letter; the other dimensions must not be sharded. Dimensions of size 1 form no group. They are
// paired, in order, with the size-1 dimensions of the other side: a sharded dimension of size 1 is
// entirely on one replica, regardless of its position.
std::pair<std::string, std::string> ReshapeTerms(const Shape& in, const Shape& out) {
  std::pair<std::string, std::string> terms(DotsFor(in), DotsFor(out));
  char letter = 'a';
  auto pair_up = [&](int i, int j) { terms.first[i] = terms.second[j] = letter++; };
  // Products of 0 determine no groups. Nor do sizes that differ, which exist while MarkRows tries
  // other row counts.
  const bool has_groups = in.num_elements() > 0 && in.num_elements() == out.num_elements();
  int i = 0, j = 0;
  auto skip_ones = [&] {
    while (i < in.rank() && in.dim(i) == 1) ++i;
    while (j < out.rank() && out.dim(j) == 1) ++j;
  };
  for (skip_ones(); i < in.rank() && j < out.rank(); skip_ones()) {
    int64_t a = in.dim(i), b = out.dim(j);
    if (!has_groups && a != b) break;
    pair_up(i++, j++);
    while (a != b) (a < b ? a : b) *= a < b ? in.dim(i++) : out.dim(j++);
  }
  for (i = 0, j = 0; i < in.rank(); ++i) {
    if (in.dim(i) != 1) continue;
    while (j < out.rank() && out.dim(j) != 1) ++j;
    if (j < out.rank()) pair_up(i, j++);
  }
  return terms;
}

absl::StatusOr<ShardingRule> ReshapeSharding(const ShardContext& c) {
  const auto [in, out] = ReshapeTerms(c.input(0), c.output(0));
  std::string dims = in;
  for (int i = 1; i < c.num_inputs(); ++i) absl::StrAppend(&dims, ",", DotsFor(c.input(i)));
  absl::StrAppend(&dims, "->", out);
  return MoveSharding(c, dims, {0});
}

absl::StatusOr<std::vector<Output>> ReshapeGrad(const GradContext& c) {
  std::vector<Output> grads(c.op.num_inputs());
  grads[0] = ops::ReshapeLike(c.scope, c.dy[0], c.op.input(0));
  return grads;
}

absl::Status ExpandDimsShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const std::optional<int64_t> dim, IntegerInput(c, 1));
  const Shape& input = c.input(0);
  if (input.unknown_rank()) return absl::OkStatus();
  if (!dim.has_value()) return SetOutput(c, Shape::UnknownDims(input.rank() + 1));
  MF_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(*dim, input.rank() + 1, "dim"));
  const Shape output = WithDim(input, axis, 1);
  MF_RETURN_IF_ERROR(output.Validate(c.node().output_dtype(0)));
  SetView(c, output);
  return absl::OkStatus();
}

// Sets the output's shape to the input's shape without the removed dimensions, or to unknown rank
// if these are not yet known.
absl::Status SqueezeShape(ShapeContext& c) {
  const Shape& input = c.input(0);
  if (input.unknown_rank()) return absl::OkStatus();
  std::vector<bool> goes(input.rank(), false);
  const std::vector<int64_t> axes = c.node().int_list("squeeze_dims");
  for (int64_t axis : axes) {
    MF_ASSIGN_OR_RETURN(const int d, NormalizeAxis(axis, input.rank(), "squeeze_dims"));
    if (input.dim(d) != 1 && input.dim(d) != kUnknownDim) {
      return absl::InvalidArgumentError(
          absl::StrCat("dimension ", d, " must have size 1, got ", input.ToString()));
    }
    goes[d] = true;
  }
  Shape output;
  for (int d = 0; d < input.rank(); ++d) {
    if (axes.empty() && input.dim(d) == kUnknownDim) return absl::OkStatus();
    if (axes.empty() ? input.dim(d) != 1 : !goes[d]) output.AddDim(input.dim(d));
  }
  SetView(c, output);
  return absl::OkStatus();
}

}  // namespace

void RegisterReshape(OpRegistry& ops) {
  ops.Define("Reshape")
      .Doc("the same elements with another shape")
      .Input("tensor: T")
      .StaticInput("shape: Tshape")
      .Output("output: T")
      .Attr("T: type")
      .Attr("Tshape: {int32, int64} = int32")
      .Traits(kView)
      .Shape(ReshapeShape)
      .Sharding(ReshapeSharding)
      .Gradient(ReshapeGrad);
  ops.Define("ExpandDims")
      .Doc("the input with a dimension of size 1 inserted before dimension `dim`")
      .Input("input: T")
      .StaticInput("dim: Tdim")
      .Output("output: T")
      .Attr("T: type")
      .Attr("Tdim: {int32, int64} = int32")
      .Traits(kView)
      .Shape(ExpandDimsShape)
      .Sharding(ReshapeSharding)
      .Gradient(ReshapeGrad);
  ops.Define("Squeeze")
      .Doc(
          "the input without the dimensions of size 1 that `squeeze_dims` lists; by default, "
          "without all of them")
      .Input("input: T")
      .Output("output: T")
      .Attr("T: type")
      .Attr("squeeze_dims: list(int) >= 0 = []")
      .Traits(kView)
      .Shape(SqueezeShape)
      .Sharding(ReshapeSharding)
      .Gradient(ReshapeGrad);
}

namespace ops {

Output Reshape(const Scope& scope, Output tensor, Output shape) {
  return Apply(scope, "Reshape", {tensor, shape});
}

Output Reshape(const Scope& scope, Output tensor, const mirrorflow::Shape& shape) {
  return Reshape(scope, tensor, VectorConst(scope.ForOperand("shape"), shape.dims()));
}

bool IsReshapeTarget(const mirrorflow::Shape& shape) {
  if (shape.unknown_rank()) return false;
  const auto num_unknown = absl::c_count(shape.dims(), kUnknownDim);
  return num_unknown == 0 || (num_unknown == 1 && !absl::c_linear_search(shape.dims(), 0));
}

Output ReshapeLike(const Scope& scope, Output value, Output like) {
  const mirrorflow::Shape shape = scope.shape(like);
  if (shape.IsFullyDefined() && shape == scope.shape(value)) return value;
  if (IsReshapeTarget(shape)) return Reshape(scope, value, shape);
  return Reshape(scope, value, ops::Shape(scope, like));
}

Output ExpandDims(const Scope& scope, Output input, Output axis) {
  return Apply(scope, "ExpandDims", {input, axis});
}

Output ExpandDims(const Scope& scope, Output input, int64_t axis) {
  return ExpandDims(scope, input, OperandConst(scope, "axis", axis));
}

Output Squeeze(const Scope& scope, Output input, const SqueezeOptions& options) {
  return Build(scope, "Squeeze", {input})
      .Attr("squeeze_dims", AttrValue::List<int64_t>(options.axis))
      .One();
}

}  // namespace ops
}  // namespace mirrorflow
