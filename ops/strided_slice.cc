// SPDX-License-Identifier: Apache-2.0
#include "ops/strided_slice.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/constant.h"
#include "ops/registry.h"
#include "ops/shape_ops.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"

namespace mirrorflow {

Shape StridedSliceSpec::output_shape() const {
  Shape shape;
  for (int d : output) shape.AddDim(d == kNewAxis ? 1 : dims[d].size);
  return shape;
}

StridedSliceMasks StridedSliceMasks::Of(const Node& node) {
  return {.begin = node.attr<int64_t>("begin_mask"),
          .end = node.attr<int64_t>("end_mask"),
          .ellipsis = node.attr<int64_t>("ellipsis_mask"),
          .new_axis = node.attr<int64_t>("new_axis_mask"),
          .shrink_axis = node.attr<int64_t>("shrink_axis_mask")};
}

namespace {

using Dim = StridedSliceSpec::Dim;

bool Bit(int64_t mask, int i) { return (mask >> i & 1) != 0; }

Dim WholeDim(int64_t size) { return {.size = size, .whole = true}; }

// Resolves an entry that is a single index into a dimension of `size` elements.
absl::StatusOr<Dim> ReadIndex(int64_t size, int64_t index, int64_t stride, int d) {
  if (stride <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the stride of an index must be positive, got ", stride));
  }
  if (size != kUnknownDim && (index < -size || index >= size)) {
    return absl::InvalidArgumentError(absl::StrCat("the index into dimension ", d, " must be in [",
                                                   -size, ", ", size, "), got ", index));
  }
  return Dim{
      .begin = index < 0 && size != kUnknownDim ? index + size : index, .size = 1, .shrink = true};
}

// Resolves an entry begin:end:stride of a dimension of `size` elements; a masked bound is nullopt.
absl::StatusOr<Dim> ReadRange(int64_t size, std::optional<int64_t> begin,
                              std::optional<int64_t> end, int64_t stride) {
  if (stride == 0) return absl::InvalidArgumentError("strides must not be 0");
  if (size == kUnknownDim) {
    Dim dim{.begin = begin.value_or(0), .stride = stride};
    dim.whole = stride == 1 && begin.value_or(0) == 0 && !end.has_value();
    return dim;
  }
  // Bounds are clamped to the positions where a slice can begin or end.
  const int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? size : size - 1;
  auto cut = [&](int64_t bound) { return std::clamp(bound < 0 ? bound + size : bound, low, high); };
  const int64_t from = begin.has_value() ? cut(*begin) : stride > 0 ? low : high;
  const int64_t to = end.has_value() ? cut(*end) : stride > 0 ? high : low;
  const int64_t distance = stride > 0 ? to - from : from - to;
  // The type is unsigned, because the magnitude of the lowest stride does not fit into int64.
  const uint64_t step = stride > 0 ? uint64_t(stride) : -uint64_t(stride);
  Dim dim{.begin = from, .stride = stride, .size = 0};
  if (distance > 0) dim.size = static_cast<int64_t>((uint64_t(distance) - 1) / step) + 1;
  dim.whole = stride == 1 && from == 0 && dim.size == size;
  return dim;
}

}  // namespace

absl::StatusOr<StridedSliceSpec> ReadStridedSlice(const Shape& input, int num_entries,
                                                  absl::Span<const int64_t> begin,
                                                  absl::Span<const int64_t> end,
                                                  absl::Span<const int64_t> strides,
                                                  const StridedSliceMasks& masks) {
  const int rank = input.rank();
  int num_ellipses = 0, num_taken = 0;
  for (int i = 0; i < num_entries; ++i) {
    if (Bit(masks.ellipsis, i)) {
      ++num_ellipses;
    } else if (!Bit(masks.new_axis, i)) {
      ++num_taken;
    }
  }
  if (num_ellipses > 1) return absl::InvalidArgumentError("only one ellipsis is allowed");
  if (num_taken > rank) {
    return absl::InvalidArgumentError(absl::StrCat("at most ", rank, " entries can refer to ",
                                                   "dimensions of the input ", input.ToString(),
                                                   ", got ", num_taken));
  }
  const bool known = !begin.empty() && !end.empty() && !strides.empty();
  StridedSliceSpec spec;
  auto add_whole_dims = [&](int n) {
    for (; n > 0; --n) {
      spec.output.push_back(static_cast<int>(spec.dims.size()));
      spec.dims.push_back(WholeDim(input.dim(static_cast<int>(spec.dims.size()))));
    }
  };
  for (int i = 0; i < num_entries; ++i) {
    const int d = static_cast<int>(spec.dims.size());
    if (Bit(masks.ellipsis, i)) {
      add_whole_dims(rank - num_taken);
      continue;
    }
    if (Bit(masks.new_axis, i)) {
      spec.output.push_back(StridedSliceSpec::kNewAxis);
      continue;
    }
    Dim dim;
    dim.shrink = Bit(masks.shrink_axis, i);
    if (known && dim.shrink) {
      MF_ASSIGN_OR_RETURN(dim, ReadIndex(input.dim(d), begin[i], strides[i], d));
    } else if (known) {
      std::optional<int64_t> from, to;
      if (!Bit(masks.begin, i)) from = begin[i];
      if (!Bit(masks.end, i)) to = end[i];
      MF_ASSIGN_OR_RETURN(dim, ReadRange(input.dim(d), from, to, strides[i]));
    }
    if (!dim.shrink) spec.output.push_back(d);
    spec.dims.push_back(dim);
  }
  add_whole_dims(rank - static_cast<int>(spec.dims.size()));
  return spec;
}

namespace {

// The masks have one bit per entry.
constexpr int64_t kMaxEntries = 32;

// Resolves the entries in inputs `first` to `first` + 2 against `input`. Returns nullopt if the
// rank of `input` or the number of entries is unknown.
absl::StatusOr<std::optional<StridedSliceSpec>> InferSpec(const ShapeContext& c, const Shape& input,
                                                          int first) {
  Shape vector = Shape::UnknownDims(1);
  std::vector<int64_t> values[3];
  for (int i = 0; i < 3; ++i) {
    MF_ASSIGN_OR_RETURN(const Shape shape, c.WithRank(first + i, 1));
    MF_ASSIGN_OR_RETURN(vector, vector.MergeWith(shape));
    MF_ASSIGN_OR_RETURN(const std::optional<std::vector<int64_t>> known, c.integers(first + i));
    if (known.has_value()) values[i] = *known;
  }
  if (vector.dim(0) > kMaxEntries) {
    return absl::InvalidArgumentError(
        absl::StrCat("begin must have at most ", kMaxEntries, " entries, got ", vector.dim(0)));
  }
  if (input.unknown_rank() || vector.dim(0) == kUnknownDim) {
    return std::optional<StridedSliceSpec>();
  }
  MF_ASSIGN_OR_RETURN(StridedSliceSpec spec,
                      ReadStridedSlice(input, static_cast<int>(vector.dim(0)), values[0], values[1],
                                       values[2], StridedSliceMasks::Of(c.node())));
  return std::optional<StridedSliceSpec>(std::move(spec));
}

absl::Status StridedSliceShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const std::optional<StridedSliceSpec> spec, InferSpec(c, c.input(0), 1));
  if (!spec.has_value()) return absl::OkStatus();
  const Shape output = spec->output_shape();
  c.set_output(0, output);
  const std::optional<KnownElements> values = ElementsOf(c, 0);
  if (!values.has_value() || spec->dims.size() != 1 || spec->dims[0].size == kUnknownDim) {
    return absl::OkStatus();
  }
  // Shape arithmetic: x.shape()[0], x.shape()[1:].
  const Dim& dim = spec->dims[0];
  KnownElements taken;
  for (int64_t i = 0; i < dim.size; ++i) taken.push_back((*values)[dim.begin + i * dim.stride]);
  if (output.rank() == 0) SetScalar(c, 0, taken[0]);
  if (output.rank() == 1 && spec->output[0] == 0) SetVector(c, 0, taken);
  return absl::OkStatus();
}

absl::Status StridedSliceGradShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const Shape shape, SizesInput(c, 0, "shape"));
  c.set_output(0, shape);
  MF_ASSIGN_OR_RETURN(const std::optional<StridedSliceSpec> spec, InferSpec(c, shape, 1));
  if (!spec.has_value()) return absl::OkStatus();
  return CheckShape(spec->output_shape(), c.input(4), "dy must have the slice's shape");
}

// The sharding terms of the sliced tensor and of the slice. Dimensions that the slice leaves
// unchanged keep their letters.
struct SliceTerms {
  std::string whole;
  std::string slice;
};
absl::StatusOr<SliceTerms> TermsOfSlice(const ShardContext& c, const Shape& shape) {
  MF_ASSIGN_OR_RETURN(const StridedSliceSpec spec, ReadStridedSlice(c, shape));
  SliceTerms terms{LettersFor(shape), ""};
  for (int d = 0; d < shape.rank(); ++d) {
    if (!spec.dims[d].whole) terms.whole[d] = '.';
  }
  for (int d : spec.output) {
    terms.slice += d == StridedSliceSpec::kNewAxis ? '.' : terms.whole[d];
  }
  return terms;
}

absl::StatusOr<ShardingRule> StridedSliceSharding(const ShardContext& c) {
  MF_ASSIGN_OR_RETURN(const SliceTerms terms, TermsOfSlice(c, c.input(0)));
  return MoveSharding(c, absl::StrCat(terms.whole, ",.,.,.->", terms.slice), {0});
}

absl::StatusOr<ShardingRule> StridedSliceGradSharding(const ShardContext& c) {
  MF_ASSIGN_OR_RETURN(const SliceTerms terms, TermsOfSlice(c, c.output(0)));
  return MoveSharding(c, absl::StrCat(".,.,.,.,", terms.slice, "->", terms.whole), {4});
}

absl::StatusOr<std::vector<Output>> StridedSliceGradient(const GradContext& c) {
  const Output begin = c.op.input(1), end = c.op.input(2), strides = c.op.input(3);
  const Output shape = ops::ShapeOperand(c.scope, c.op.input(0), begin.dtype());
  std::vector<Output> grads(4);
  grads[0] = ops::ApplyWithSameAttrs(c, "StridedSliceGrad", {shape, begin, end, strides, c.dy[0]});
  return grads;
}

absl::StatusOr<std::vector<Output>> StridedSliceGradGradient(const GradContext& c) {
  std::vector<Output> grads(5);
  grads[4] = ops::ApplyWithSameAttrs(c, "StridedSlice",
                                     {c.dy[0], c.op.input(1), c.op.input(2), c.op.input(3)});
  return grads;
}

// Adds the attributes that StridedSlice and StridedSliceGrad have: dtypes and masks.
OpBuilder& AddMasks(OpBuilder& op) {
  return op.Attr("T: type")
      .Attr("Index: {int32, int64}")
      .Attr("begin_mask: int = 0")
      .Attr("end_mask: int = 0")
      .Attr("ellipsis_mask: int = 0")
      .Attr("new_axis_mask: int = 0")
      .Attr("shrink_axis_mask: int = 0");
}

NodeBuilder WithMasks(NodeBuilder builder, const ops::StridedSliceOptions& options) {
  return std::move(builder)
      .Attr("begin_mask", options.begin_mask)
      .Attr("end_mask", options.end_mask)
      .Attr("ellipsis_mask", options.ellipsis_mask)
      .Attr("new_axis_mask", options.new_axis_mask)
      .Attr("shrink_axis_mask", options.shrink_axis_mask);
}

}  // namespace

void RegisterStridedSlice(OpRegistry& ops) {
  AddMasks(ops.Define("StridedSlice")
               .Doc("input[begin:end:strides], with NumPy's ellipsis, new axes and indices")
               .Input("input: T")
               .StaticInput("begin: Index")
               .StaticInput("end: Index")
               .StaticInput("strides: Index")
               .Output("output: T"))
      .Traits(kKeepsPrecision)
      .Shape(StridedSliceShape)
      .Sharding(StridedSliceSharding)
      .Gradient(StridedSliceGradient);
  AddMasks(
      ops.Define("StridedSliceGrad")
          .Doc("zeros of shape `shape`, with dy at the positions from which StridedSlice reads")
          .StaticInput("shape: Index")
          .StaticInput("begin: Index")
          .StaticInput("end: Index")
          .StaticInput("strides: Index")
          .Input("dy: T")
          .Output("output: T"))
      .Traits(kKeepsPrecision)
      .Shape(StridedSliceGradShape)
      .Sharding(StridedSliceGradSharding)
      .Gradient(StridedSliceGradGradient);
}

namespace ops {

Output StridedSlice(const Scope& scope, Output input, Output begin, Output end, Output strides,
                    const StridedSliceOptions& options) {
  NodeBuilder builder = Build(scope, "StridedSlice", {input, begin, end, strides});
  return WithMasks(std::move(builder), options).One();
}

Output StridedSliceGrad(const Scope& scope, Output shape, Output begin, Output end, Output strides,
                        Output dy, const StridedSliceOptions& options) {
  NodeBuilder builder = Build(scope, "StridedSliceGrad", {shape, begin, end, strides, dy});
  return WithMasks(std::move(builder), options).One();
}

Output ElementOf(const Scope& scope, Output vector, int64_t index) {
  return StridedSlice(scope, vector, VectorConst(scope.ForOperand("slice"), {index}),
                      VectorConst(scope.ForOperand("slice"), {index + 1}),
                      VectorConst(scope.ForOperand("slice"), {1}), {.shrink_axis_mask = 1});
}

}  // namespace ops
}  // namespace mirrorflow
