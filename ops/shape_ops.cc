// SPDX-License-Identifier: Apache-2.0
#include "ops/shape_ops.h"

#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "framework/core/reduced_float.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/constant.h"
#include "ops/reduction.h"
#include "ops/registry.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"

namespace mirrorflow {
namespace {

// --- ops that read shapes --------------------------------------------------------------------
//
// The output describes the global value. Once its shape is known, a constant replaces the node.

absl::Status CheckFits(const ShapeContext& c, int64_t number) {
  if (c.node().output_dtype(0) == DT_INT64 || number <= std::numeric_limits<int32_t>::max()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("out_type int32 cannot hold ", number, "; use out_type int64"));
}

absl::Status ShapeShape(ShapeContext& c) {  // for Shape and ShapeN
  for (int i = 0; i < c.num_inputs(); ++i) {
    for (int64_t d : c.input(i).dims()) MF_RETURN_IF_ERROR(CheckFits(c, d));
    c.set_output_as_shape(i, c.input(i));
  }
  return absl::OkStatus();
}

absl::Status SizeShape(ShapeContext& c) {
  std::optional<int64_t> size;
  if (c.input(0).IsFullyDefined()) size = c.input(0).num_elements();
  MF_RETURN_IF_ERROR(CheckFits(c, size.value_or(0)));
  SetScalar(c, 0, size);
  return absl::OkStatus();
}

absl::Status RankShape(ShapeContext& c) {
  std::optional<int64_t> rank;
  if (!c.input(0).unknown_rank()) rank = c.input(0).rank();
  SetScalar(c, 0, rank);
  return absl::OkStatus();
}

absl::Status VariableShapeShape(ShapeContext& c) {
  MF_RETURN_IF_ERROR(c.WithRank(0, 0).status());
  c.set_output_as_shape(0, c.handle_shape(0));
  return absl::OkStatus();
}

// --- ops that create a tensor of a given shape -----------------------------------------------

absl::Status FillShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const Shape dims, SizesInput(c, 0, "dims"));
  MF_RETURN_IF_ERROR(c.WithRank(1, 0).status());
  c.set_output(0, dims);
  const std::optional<KnownElements> value = ElementsOf(c, 1);
  if (value.has_value() && dims.IsFullyDefined() && dims.rank() == 1 && dims.dim(0) <= kMaxRank) {
    SetVector(c, 0, KnownElements(dims.dim(0), (*value)[0]));
  }
  return absl::OkStatus();
}

absl::StatusOr<ShardingRule> FillSharding(const ShardContext& c) {
  return MoveSharding(c, absl::StrCat(".,->", LettersFor(c.output(0))), {1});
}

// Returns the number of elements from `start` in steps of `delta` before `limit`.
template <typename T>
absl::StatusOr<int64_t> RangeSize(T start, T limit, T delta) {
  if (delta == 0) return absl::InvalidArgumentError("delta must not be 0");
  if (delta > 0 ? start <= limit : start >= limit) {
    if constexpr (std::is_floating_point_v<T>) {
      const double size = std::ceil((limit - start) / delta);
      if (size < std::ldexp(1.0, 62)) return static_cast<int64_t>(size);
    } else {
      // Uses unsigned arithmetic, where the distance between two signed numbers always fits.
      const uint64_t from = start, to = limit, by = delta;
      const uint64_t distance = delta > 0 ? to - from : from - to, step = delta > 0 ? by : -by;
      const uint64_t size = distance / step + (distance % step != 0);
      if (size < uint64_t{1} << 62) return static_cast<int64_t>(size);
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("cannot step from start ", start, " to limit ", limit, " by delta ", delta));
}

absl::Status RangeShape(ShapeContext& c) {
  for (int i = 0; i < 3; ++i) MF_RETURN_IF_ERROR(c.WithRank(i, 0).status());
  c.set_output(0, Shape::UnknownDims(1));
  const Tensor *start = c.constant(0), *limit = c.constant(1), *delta = c.constant(2);
  if (start == nullptr || limit == nullptr || delta == nullptr) return absl::OkStatus();
  const auto reduced = [](const Tensor& scalar) {
    return ReducedToFloat(scalar.dtype(), *reinterpret_cast<const uint16_t*>(scalar.raw()));
  };
  const absl::StatusOr<int64_t> size =
      IsReducedFloat(start->dtype())
          ? RangeSize<float>(reduced(*start), reduced(*limit), reduced(*delta))
          : DispatchDataType(
                start->dtype(),
                [&]<typename T>(TypeTag<T>) -> absl::StatusOr<int64_t> {
                  return RangeSize<T>(start->scalar<T>(), limit->scalar<T>(), delta->scalar<T>());
                },
                absl::StatusOr<int64_t>(
                    absl::InvalidArgumentError("Range does not support this dtype")));
  MF_RETURN_IF_ERROR(size.status());
  c.set_output(0, Shape({*size}));
  // A short range may be a list of axes, whose elements other shape functions need.
  const auto first = ElementsOf(c, 0), step = ElementsOf(c, 2);
  if (!first.has_value() || *size > kMaxRank) return absl::OkStatus();
  KnownElements elements;
  for (int64_t i = 0; i < *size; ++i) elements.push_back(*(*first)[0] + i * *(*step)[0]);
  SetVector(c, 0, elements);
  return absl::OkStatus();
}

absl::StatusOr<ShardingRule> RangeSharding(const ShardContext& c) {
  return ShardingRule{.dims = ",,->a"};
}

absl::Status LinSpaceShape(ShapeContext& c) {
  for (int i = 0; i < 3; ++i) MF_RETURN_IF_ERROR(c.WithRank(i, 0).status());
  MF_ASSIGN_OR_RETURN(const std::optional<int64_t> num, IntegerInput(c, 2));
  c.set_output(0, Shape({num.value_or(kUnknownDim)}));
  if (!num.has_value() || *num > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("num must be positive, got ", *num));
}

// --- gradients -------------------------------------------------------------------------------

absl::StatusOr<std::vector<Output>> FillGrad(const GradContext& c) {
  return std::vector<Output>{Output(), ops::Sum(c.scope, c.dy[0])};
}

}  // namespace

void RegisterShapeOps(OpRegistry& ops) {
  ops.Define("Shape")
      .Doc("the dimensions of the input")
      .Input("input: T")
      .Output("output: out_type")
      .Attr("T: type")
      .Attr("out_type: {int32, int64} = int32")
      .Shape(ShapeShape)
      .Sharding(ReplicatedSharding)
      .NoGradient("the output does not depend on the elements");
  ops.Define("ShapeN")
      .Doc("the dimensions of each input")
      .Input("input: N * T")
      .Output("output: N * out_type")
      .Attr("N: int >= 1")
      .Attr("T: type")
      .Attr("out_type: {int32, int64} = int32")
      .Shape(ShapeShape)
      .Sharding(ReplicatedSharding)
      .NoGradient("the output does not depend on the elements");
  ops.Define("Size")
      .Doc("the number of elements of the input")
      .Input("input: T")
      .Output("output: out_type")
      .Attr("T: type")
      .Attr("out_type: {int32, int64} = int32")
      .Shape(SizeShape)
      .Sharding(ReplicatedSharding)
      .NoGradient("the output does not depend on the elements");
  ops.Define("Rank")
      .Doc("the number of dimensions of the input")
      .Input("input: T")
      .Output("output: int32")
      .Attr("T: type")
      .Shape(RankShape)
      .Sharding(ReplicatedSharding)
      .NoGradient("the output does not depend on the elements");
  ops.Define("VariableShape")
      .Doc("the dimensions of a variable")
      .Input("input: resource")
      .Output("output: out_type")
      .Attr("out_type: {int32, int64} = int32")
      .Shape(VariableShapeShape)
      .Sharding(ReplicatedSharding)
      .NoGradient("the output does not depend on the elements");
  ops.Define("Fill")
      .Doc("a tensor of shape `dims` filled with a scalar")
      .StaticInput("dims: index_type")
      .Input("value: T")
      .Output("output: T")
      .Attr("T: type")
      .Attr("index_type: {int32, int64} = int32")
      .Shape(FillShape)
      .Sharding(FillSharding)
      .Gradient(FillGrad);
  ops.Define("Range")
      .Doc("start, start + delta, …, up to but excluding limit")
      .StaticInput("start: Tidx")
      .StaticInput("limit: Tidx")
      .StaticInput("delta: Tidx")
      .Output("output: Tidx")
      .Attr("Tidx: {half, bfloat16, float, double, int32, int64} = int32")
      .Shape(RangeShape)
      .Sharding(RangeSharding)
      .NoGradient("the operands are constants");
  ops.Define("LinSpace")
      .Doc("num evenly spaced values from start to stop, inclusive")
      .Input("start: T")
      .Input("stop: T")
      .StaticInput("num: Tidx")
      .Output("output: T")
      .Attr("T: {half, bfloat16, float, double}")
      .Attr("Tidx: {int32, int64} = int32")
      .Shape(LinSpaceShape)
      .Sharding(RangeSharding)
      .NoGradient("TensorFlow's LinSpace has no gradient");
}

namespace ops {

Output Shape(const Scope& scope, Output input, const ShapeOptions& options) {
  return Build(scope, "Shape", {input}).Attr("out_type", options.out_type).One();
}

std::vector<Output> ShapeN(const Scope& scope, absl::Span<const Output> inputs,
                           const ShapeOptions& options) {
  Node* node = Build(scope, "ShapeN").InputList(inputs).Attr("out_type", options.out_type).Finish();
  return OutputsOf(node, inputs.size());
}

Output Size(const Scope& scope, Output input, const ShapeOptions& options) {
  return Build(scope, "Size", {input}).Attr("out_type", options.out_type).One();
}

Output Rank(const Scope& scope, Output input) { return Apply(scope, "Rank", {input}); }

Output VariableShape(const Scope& scope, Output handle, const ShapeOptions& options) {
  return Build(scope, "VariableShape", {handle}).Attr("out_type", options.out_type).One();
}

Output ShapeOperand(const Scope& scope, Output value, DataType out_type) {
  const mirrorflow::Shape& shape = scope.shape(value);
  if (shape.IsFullyDefined()) return VectorConst(scope, shape.dims(), out_type);
  return Shape(scope, value, {.out_type = out_type});
}

Output Fill(const Scope& scope, Output dims, Output value) {
  return Apply(scope, "Fill", {dims, value});
}

Output Range(const Scope& scope, Output start, Output limit, Output delta) {
  return Apply(scope, "Range", {start, limit, delta});
}

Output LinSpace(const Scope& scope, Output start, Output stop, Output num) {
  return Apply(scope, "LinSpace", {start, stop, num});
}

}  // namespace ops
}  // namespace mirrorflow
