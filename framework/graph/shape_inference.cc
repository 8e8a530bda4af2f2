// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/shape_inference.h"

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"

namespace mirrorflow {

std::vector<ValueInfo>& ShapeTable::Row(const Node& node) {
  if (static_cast<size_t>(node.id()) >= rows_.size()) rows_.resize(node.id() + 1);
  std::vector<ValueInfo>& row = rows_[node.id()];
  if (static_cast<int>(row.size()) != node.num_outputs()) row.resize(node.num_outputs());
  return row;
}

const ValueInfo& ShapeTable::at(const Output& output) const {
  static const ValueInfo* const unknown = new ValueInfo();
  const size_t id = output.node->id();
  // A builder can read the shape of another graph's output before AddNode rejects the output.
  if (graph_ != nullptr && &output.node->graph() != graph_) return *unknown;
  if (id >= rows_.size() || static_cast<size_t>(output.index) >= rows_[id].size()) return *unknown;
  return rows_[id][output.index];
}

void ShapeTable::Forget(const Node& node) {
  if (static_cast<size_t>(node.id()) < rows_.size()) rows_[node.id()].clear();
}

absl::Status ShapeTable::Infer(const Node& node) {
  auto annotate = [&](const absl::Status& status) { return Annotate(status, OpAndName(node)); };
  std::vector<ValueInfo> outputs(node.num_outputs());
  if (node.op().shape != nullptr) {
    ShapeContext context(node, *this, &outputs);
    absl::Status status = node.op().shape(context);
    if (!status.ok()) return annotate(status);
  }
  for (int i = 0; i < node.num_outputs(); ++i) {
    absl::Status status = outputs[i].shape.Validate(node.output_dtype(i));
    if (!status.ok()) return annotate(status);
  }
  Row(node) = std::move(outputs);
  return absl::OkStatus();
}

const Tensor* ShapeContext::constant(int i) const {
  const Tensor& value = input_info(i).constant;
  return value.has_value() ? &value : nullptr;
}

absl::StatusOr<std::optional<std::vector<int64_t>>> ShapeContext::integers(int i) const {
  const Tensor* value = constant(i);
  if (value == nullptr) return std::optional<std::vector<int64_t>>();
  MF_ASSIGN_OR_RETURN(std::vector<int64_t> values, IntegersOf(*value));
  return std::optional<std::vector<int64_t>>(std::move(values));
}

absl::StatusOr<Shape> ShapeContext::input_as_shape(int i) const {
  const ValueInfo& info = input_info(i);
  if (!info.shape.unknown_rank() && info.shape.rank() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("input ", i,
                                                   " must be a vector that holds a shape, got a "
                                                   "tensor of shape ",
                                                   info.shape.ToString()));
  }
  if (info.constant.has_value()) {
    MF_ASSIGN_OR_RETURN(std::vector<int64_t> dims, IntegersOf(info.constant));
    Shape shape{absl::Span<const int64_t>(dims)};
    MF_RETURN_IF_ERROR(shape.Validate(DT_UINT8));
    return shape;
  }
  if (info.as_shape.has_value()) return *info.as_shape;
  if (!info.shape.unknown_rank() && info.shape.dim(0) != kUnknownDim) {
    if (info.shape.dim(0) > kMaxRank) {
      return absl::InvalidArgumentError(absl::StrCat("the rank of a shape must be at most ",
                                                     kMaxRank, ", got ", info.shape.dim(0)));
    }
    return Shape::UnknownDims(static_cast<int>(info.shape.dim(0)));
  }
  return Shape::UnknownRank();
}

void ShapeContext::set_constant(int i, Tensor value) {
  outputs_[i].shape = value.shape();
  outputs_[i].constant = std::move(value);
}

void ShapeContext::set_output_as_shape(int i, const Shape& shape) {
  if (shape.unknown_rank()) {
    outputs_[i].shape = Shape::UnknownDims(1);
    return;
  }
  outputs_[i].shape = Shape({shape.rank()});
  outputs_[i].as_shape = shape;
  if (!shape.IsFullyDefined()) return;
  if (node_.output_dtype(i) == DT_INT64) {
    outputs_[i].constant = Tensor::Vector<int64_t>(shape.dims());
  } else if (node_.output_dtype(i) == DT_INT32) {
    std::vector<int32_t> dims(shape.dims().begin(), shape.dims().end());
    outputs_[i].constant = Tensor::Vector<int32_t>(dims);
  }
}

void ShapeContext::set_handle(int i, DataType dtype, Shape shape) {
  outputs_[i].shape = Shape();
  outputs_[i].handle_dtype = dtype;
  outputs_[i].handle_shape = std::move(shape);
}

absl::StatusOr<Shape> ShapeContext::WithRank(int i, int64_t rank) const {
  const Shape& shape = input(i);
  if (rank < 0 || rank > kMaxRank) {
    return absl::InvalidArgumentError(absl::StrCat(
        "input ", i, ": the required rank must be from 0 to ", kMaxRank, ", got ", rank));
  }
  if (shape.unknown_rank()) return Shape::UnknownDims(static_cast<int>(rank));
  if (shape.rank() == rank) return shape;
  return absl::InvalidArgumentError(
      absl::StrCat("input ", i, " must have rank ", rank, ", got shape ", shape.ToString()));
}

absl::StatusOr<Shape> ShapeContext::WithRankAtLeast(int i, int rank) const {
  const Shape& shape = input(i);
  if (shape.unknown_rank() || shape.rank() >= rank) return shape;
  return absl::InvalidArgumentError(absl::StrCat("input ", i, " must have rank at least ", rank,
                                                 ", got shape ", shape.ToString()));
}

absl::StatusOr<std::vector<int64_t>> ShardContext::integers(int i) const {
  const Tensor& value = table_.at(node_.input(i)).constant;
  if (!value.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("input ", i, " must be a constant"));
  }
  return IntegersOf(value);
}

absl::StatusOr<int> NormalizeAxis(int64_t axis, int rank, absl::string_view axis_name) {
  if (axis < -rank || axis >= rank) {
    return absl::InvalidArgumentError(
        absl::StrCat(axis_name, " must be in [", -rank, ", ", rank, "), got ", axis));
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

}  // namespace mirrorflow
