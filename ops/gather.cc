// SPDX-License-Identifier: Apache-2.0
#include "ops/gather.h"

#include <algorithm>
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
#include "ops/slice.h"
#include "ops/strided_slice.h"
#include "ops/transpose.h"
#include "ops/variable.h"

namespace mirrorflow {

using ops::kResourceGather;

namespace {

// --- GatherV2 --------------------------------------------------------------------------------

// Returns how many leading dimensions params and indices share. Attribute batch_dims specifies the
// count; a negative value is relative to the rank of the indices.
absl::StatusOr<int> BatchDims(const Node& node, const Shape& indices) {
  const int64_t given = node.attr<int64_t>("batch_dims");
  const int64_t batch = given < 0 ? given + indices.rank() : given;
  if (batch >= 0 && batch <= indices.rank()) return static_cast<int>(batch);
  return absl::InvalidArgumentError(absl::StrCat("batch_dims must be at most the rank of indices ",
                                                 indices.ToString(), ", got ", given));
}

// Returns the shape of the slices of params along dimension `axis` that the indices select. Params
// and indices share the first `batch` dimensions.
absl::StatusOr<Shape> SlicesShape(const Shape& params, const Shape& indices, int64_t batch,
                                  int64_t axis) {
  MF_ASSIGN_OR_RETURN(
      Shape output,
      MergeShapes(Shape(params.dims().first(batch)), Shape(indices.dims().first(batch)),
                  "the first ", batch, " dimensions of params ", params.ToString(), " and indices ",
                  indices.ToString(), " must be equal"));
  for (int64_t d : params.dims().subspan(batch, axis - batch)) output.AddDim(d);
  for (int64_t d : indices.dims().subspan(batch)) output.AddDim(d);
  for (int64_t d : params.dims().subspan(axis + 1)) output.AddDim(d);
  return output;
}

absl::Status GatherShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const std::optional<int64_t> given_axis, IntegerInput(c, 2));
  MF_ASSIGN_OR_RETURN(const Shape params, c.WithRankAtLeast(0, 1));
  const Shape& indices = c.input(1);
  if (params.unknown_rank() || indices.unknown_rank()) return absl::OkStatus();
  MF_ASSIGN_OR_RETURN(const int batch, BatchDims(c.node(), indices));
  if (!given_axis.has_value()) {
    return SetOutput(c, Shape::UnknownDims(params.rank() - 1 + indices.rank() - batch));
  }
  MF_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(*given_axis, params.rank()));
  if (batch > axis) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch_dims must be at most axis ", axis, ", got ", batch));
  }
  MF_ASSIGN_OR_RETURN(const Shape output, SlicesShape(params, indices, batch, axis));
  c.set_output(0, output);
  if (batch > 0) return absl::OkStatus();

  // Propagates the known elements of a shape whose dimensions are selected or reordered.
  const auto values = ElementsOf(c, 0), chosen = ElementsOf(c, 1);
  if (!values.has_value() || !chosen.has_value()) return absl::OkStatus();
  KnownElements taken;
  for (const std::optional<int64_t>& i : *chosen) {
    const bool inside = i.has_value() && *i >= 0 && *i < static_cast<int64_t>(values->size());
    taken.push_back(inside ? (*values)[*i] : std::nullopt);
  }
  if (output.rank() == 1) SetVector(c, 0, taken);
  if (output.rank() == 0) SetScalar(c, 0, taken[0]);
  return absl::OkStatus();
}

// The indices and all dimensions of params except the gathered one can be sharded.
absl::StatusOr<ShardingRule> GatherSharding(const ShardContext& c) {
  const Shape &params = c.input(0), &indices = c.input(1);
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> given_axis, c.integers(2));
  MF_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(given_axis[0], params.rank()));
  std::string from = LettersFor(params);
  from[axis] = '.';
  MF_ASSIGN_OR_RETURN(const int batch, BatchDims(c.node(), indices));
  std::string rows = from.substr(0, batch);
  for (int d = batch; d < indices.rank(); ++d) rows += static_cast<char>('a' + params.rank() + d);
  const std::string out = from.substr(0, axis) + rows.substr(batch) + from.substr(axis + 1);
  return MoveSharding(c, absl::StrCat(from, ",", rows, ",", DotsFor(c.input(2)), "->", out), {0});
}

// Appends first, …, last - 1 to `numbers`.
void AppendRange(int first, int last, std::vector<int64_t>* numbers) {
  for (int i = first; i < last; ++i) numbers->push_back(i);
}

// Returns offsets that turn the indices of each batch into row numbers across all batches. Their
// shape is [batch…, 1…], with `ones` trailing dimensions of size 1.
Output BatchOffsets(const Scope& s, Output shape, Output num_batches, Output size, int batch,
                    int ones) {
  const DataType dtype = shape.dtype();
  const Output numbers =
      ops::Range(s, ops::ScalarConst(s, dtype, 0), num_batches, ops::ScalarConst(s, dtype, 1));
  const Output dims = ops::Slice(s, shape, ops::VectorConst(s, {0}), ops::VectorConst(s, {batch}));
  const Output trailing = ops::VectorConst(s, std::vector<int64_t>(ones, 1), dtype);
  return ops::Reshape(s, ops::Mul(s, numbers, size), ops::ConcatV2(s, {dims, trailing}, 0));
}

// Returns the gradient for batch_dims > 0. The rows of all batches are concatenated, and each batch
// adds to its own rows.
Output BatchedGatherGrad(const GradContext& c, Output params, int axis, int batch) {
  const Scope& s = c.scope;
  const Output indices = c.op.input(1);
  const int rank = s.shape(params).rank(), num_index_dims = s.shape(indices).rank();
  const int num_new = num_index_dims - batch;  // number of dimensions that replace the axis
  const Output shape = ops::Shape(s, params, {.out_type = indices.dtype()});
  const Output size = ops::ElementOf(s, shape, axis);
  const Output num_batches = ops::Prod(
      s, ops::Slice(s, shape, ops::VectorConst(s, {0}), ops::VectorConst(s, {batch})), {0});
  const Output ids =
      ops::AddV2(s, indices, BatchOffsets(s, shape, num_batches, size, batch, num_new));
  std::vector<int64_t> rows_first;
  AppendRange(0, batch, &rows_first);
  AppendRange(axis, axis + num_new, &rows_first);
  AppendRange(batch, axis, &rows_first);
  AppendRange(axis + num_new, rank - 1 + num_new, &rows_first);
  const Output sum = ops::UnsortedSegmentSum(s, ops::Transpose(s, c.dy[0], rows_first), ids,
                                             ops::Mul(s, num_batches, size));
  // A permutation of params' dimensions to [batch…, axis, all others…], and its inverse.
  std::vector<int64_t> axis_first, in_place;
  AppendRange(0, batch, &axis_first);
  axis_first.push_back(axis);
  AppendRange(batch, axis, &axis_first);
  AppendRange(axis + 1, rank, &axis_first);
  for (int d = 0; d < rank; ++d) {
    const auto at = std::find(axis_first.begin(), axis_first.end(), d);
    in_place.push_back(at - axis_first.begin());
  }
  const Output dims =
      ops::GatherV2(s, shape, ops::VectorConst(s, axis_first), ops::ScalarConst(s, DT_INT32, 0));
  return ops::Transpose(s, ops::Reshape(s, sum, dims), in_place);
}

// Adds each row of dy to the row of params that the corresponding output row was read from.
// UnsortedSegmentSum requires the row dimensions to come first.
absl::StatusOr<std::vector<Output>> GatherGrad(const GradContext& c) {
  const Scope& s = c.scope;
  const Output params = c.op.input(0), indices = c.op.input(1);
  const Shape params_shape = s.shape(params), indices_shape = s.shape(indices);
  const Tensor known_axis = s.graph().values().at(c.op.input(2)).constant;
  if (params_shape.unknown_rank() || indices_shape.unknown_rank() || !known_axis.has_value()) {
    return absl::InvalidArgumentError(
        "the gradient requires known ranks of params and indices, and a known axis");
  }
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> given_axis, IntegersOf(known_axis));
  MF_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(given_axis[0], params_shape.rank()));
  const int rank = params_shape.rank(), num_index_dims = indices_shape.rank();
  MF_ASSIGN_OR_RETURN(const int batch, BatchDims(c.op, indices_shape));
  if (batch > 0) {
    return std::vector<Output>{BatchedGatherGrad(c, params, axis, batch), Output(), Output()};
  }
  const int dy_rank = rank - 1 + num_index_dims;
  const Output num_segments =
      params_shape.dim(axis) != kUnknownDim
          ? ops::Const(s, Tensor::Scalar<int64_t>(params_shape.dim(axis)))
          : ops::ElementOf(s, ops::Shape(s, params, {.out_type = DT_INT64}), axis);
  Output dy = c.dy[0];
  if (axis != 0) {
    std::vector<int64_t> rows_first;
    AppendRange(axis, axis + num_index_dims, &rows_first);
    AppendRange(0, axis, &rows_first);
    AppendRange(axis + num_index_dims, dy_rank, &rows_first);
    dy = ops::Transpose(s, dy, rows_first);
  }
  Output dparams = ops::UnsortedSegmentSum(s, dy, indices, num_segments);
  if (axis != 0) {
    std::vector<int64_t> in_place;
    AppendRange(1, axis + 1, &in_place);
    in_place.push_back(0);
    AppendRange(axis + 1, rank, &in_place);
    dparams = ops::Transpose(s, dparams, in_place);
  }
  return std::vector<Output>{dparams, Output(), Output()};
}

// --- ResourceGather ---------------------------------------------------------------------------

absl::Status ResourceGatherShape(ShapeContext& c) {
  const int64_t batch = c.attr<int64_t>("batch_dims");
  if (batch < 0) {
    return absl::InvalidArgumentError(absl::StrCat("batch_dims must be >= 0, got ", batch));
  }
  MF_RETURN_IF_ERROR(CheckHandle(c));
  const Shape &params = c.handle_shape(0), &indices = c.input(1);
  if (params.unknown_rank() || indices.unknown_rank()) return absl::OkStatus();
  if (params.rank() <= batch || indices.rank() < batch) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch_dims must be at most the rank of indices ", indices.ToString(),
                     " and below the rank of the variable ", params.ToString(), ", got ", batch));
  }
  return SetOutput(c, SlicesShape(params, indices, batch, batch));
}

// Neither the variable nor the batch dimensions, which it shares with the indices, can be sharded.
absl::StatusOr<ShardingRule> ResourceGatherSharding(const ShardContext& c) {
  const int batch = static_cast<int>(c.node().attr<int64_t>("batch_dims"));
  const std::string rows = std::string(batch, '.') + LettersFor(c.input(1)).substr(batch);
  const std::string rest(c.output(0).rank() - c.input(1).rank(), '.');
  return ShardingRule{.dims = absl::StrCat("*,", rows, "->", rows, rest)};
}

absl::StatusOr<std::vector<Output>> ResourceGatherGrad(const GradContext& c) {
  const Scope& s = c.scope;
  const Output handle = c.op.input(0);
  const Shape& params = s.graph().values().at(handle).handle_shape;
  const int batch = static_cast<int>(c.op.attr<int64_t>("batch_dims"));
  if (batch > 0 && (params.unknown_rank() || s.shape(c.op.input(1)).unknown_rank())) {
    return absl::InvalidArgumentError(
        "the gradient requires known ranks of the variable and indices");
  }
  if (batch > 0) {
    const Output variable = ops::ReadVariableOp(s, handle);
    return std::vector<Output>{BatchedGatherGrad(c, variable, batch, batch), Output()};
  }
  const bool known = !params.unknown_rank() && params.dim(0) != kUnknownDim;
  const Output num_segments =
      known ? ops::Const(s, Tensor::Scalar<int64_t>(params.dim(0)))
            : ops::ElementOf(
                  s, ops::Shape(s, ops::ReadVariableOp(s, handle), {.out_type = DT_INT64}), 0);
  const Output dparams = ops::UnsortedSegmentSum(s, c.dy[0], c.op.input(1), num_segments);
  return std::vector<Output>{dparams, Output()};
}

// --- UnsortedSegmentSum ----------------------------------------------------------------------

absl::Status SegmentSumShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const std::optional<int64_t> num_segments, CountInput(c, 2));
  const Shape &data = c.input(0), &ids = c.input(1);
  if (data.unknown_rank() || ids.unknown_rank()) return absl::OkStatus();
  Shape rows = data;
  if (ids.rank() <= data.rank()) rows = Shape(data.dims().subspan(0, ids.rank()));
  MF_RETURN_IF_ERROR(CheckShape(rows, ids, "segment_ids must match the leading dimensions of data ",
                                data.ToString()));
  Shape output({num_segments.value_or(kUnknownDim)});
  for (int d = ids.rank(); d < data.rank(); ++d) output.AddDim(data.dim(d));
  return SetOutput(c, output);
}

// The row dimension is contracted: each replica adds its own rows to the segments.
absl::StatusOr<ShardingRule> SegmentSumSharding(const ShardContext& c) {
  const std::string data = LettersFor(c.input(0));
  const int num_row_dims = c.input(1).rank();
  return MoveSharding(c,
                      absl::StrCat(data, ",", data.substr(0, num_row_dims), ",",
                                   DotsFor(c.input(2)), "->.", data.substr(num_row_dims)),
                      {0});
}

// Gathers dy by id. Negative ids select a row of zeros in front of dy.
absl::StatusOr<std::vector<Output>> SegmentSumGrad(const GradContext& c) {
  const Scope& s = c.scope;
  const Output ids = c.op.input(1);
  const Shape output = s.shape(c.op.output(0));
  if (output.unknown_rank()) {
    return absl::InvalidArgumentError("the gradient requires known ranks of data and segment_ids");
  }
  std::vector<int32_t> paddings(2 * output.rank(), 0);
  paddings[0] = 1;
  const Output padded =
      ops::Pad(s, c.dy[0], ops::Const(s, Tensor::Of<int32_t>({output.rank(), 2}, paddings)));
  const Output one_further = ops::AddV2(s, ids, ops::ScalarConst(s, ids.dtype(), 1));
  const Output rows = ops::Maximum(s, one_further, ops::ScalarConst(s, ids.dtype(), 0));
  const Output axis = ops::ScalarConst(s, DT_INT32, 0);
  return std::vector<Output>{ops::GatherV2(s, padded, rows, axis), Output(), Output()};
}

}  // namespace

void RegisterGather(OpRegistry& ops) {
  ops.Define(ops::kGatherV2)
      .Doc("slices of params along dimension `axis`, selected by indices")
      .Input("params: Tparams")
      .Input("indices: Tindices")
      .StaticInput("axis: Taxis")
      .Output("output: Tparams")
      .Attr("batch_dims: int = 0")
      .Attr("Tparams: type")
      .Attr("Tindices: {int32, int64}")
      .Attr("Taxis: {int32, int64}")
      .Shape(GatherShape)
      .Sharding(GatherSharding)
      .Gradient(GatherGrad);
  ops.Define(kResourceGather)
      .Doc("slices of a variable along its first dimension, selected by indices")
      .Input("resource: resource")
      .Input("indices: Tindices")
      .Output("output: dtype")
      .Attr("batch_dims: int = 0")
      .Attr("validate_indices: bool = true")
      .Attr("dtype: type")
      .Attr("Tindices: {int32, int64}")
      .Traits(kStateful)
      .Shape(ResourceGatherShape)
      .Sharding(ResourceGatherSharding)
      .Gradient(ResourceGatherGrad);
  ops.Define("UnsortedSegmentSum")
      .Doc("output[s] = the sum of the rows of data whose segment id is s")
      .Input("data: T")
      .Input("segment_ids: Tindices")
      .StaticInput("num_segments: Tnumsegments")
      .Output("output: T")
      .Attr("T: {half, bfloat16, float, double, int32, int64, uint8}")
      .Attr("Tindices: {int32, int64}")
      .Attr("Tnumsegments: {int32, int64} = int32")
      .Shape(SegmentSumShape)
      .Sharding(SegmentSumSharding)
      .Gradient(SegmentSumGrad);
}

namespace ops {

Output GatherV2(const Scope& scope, Output params, Output indices, Output axis,
                const GatherV2Options& options) {
  return Build(scope, kGatherV2, {params, indices, axis})
      .Attr("batch_dims", options.batch_dims)
      .One();
}

Output ResourceGather(const Scope& scope, Output resource, Output indices,
                      const ResourceGatherOptions& options) {
  // An invalid handle has no row in the shape table; Finish() reports why it is invalid.
  const DataType dtype =
      resource.valid() ? scope.graph().values().at(resource).handle_dtype : DT_INVALID;
  return Build(scope, kResourceGather, {resource, indices})
      .Attr("dtype", dtype)
      .Attr("batch_dims", options.batch_dims)
      .One();
}

Output UnsortedSegmentSum(const Scope& scope, Output data, Output segment_ids,
                          Output num_segments) {
  return Apply(scope, "UnsortedSegmentSum", {data, segment_ids, num_segments});
}

}  // namespace ops
}  // namespace mirrorflow
