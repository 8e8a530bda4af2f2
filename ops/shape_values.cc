// SPDX-License-Identifier: Apache-2.0
#include "ops/shape_values.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

bool IsIndexType(DataType dtype) { return dtype == DT_INT32 || dtype == DT_INT64; }

bool Fits(DataType dtype, int64_t value) {
  return dtype == DT_INT64 || value == static_cast<int32_t>(value);
}

// Returns a constant of `elements`, or a tensor without a value if an element is unknown or does
// not fit.
Tensor ConstantOf(DataType dtype, const Shape& shape, const KnownElements& elements) {
  std::vector<int64_t> values;
  for (const std::optional<int64_t>& element : elements) {
    if (!element.has_value()) return Tensor();
    if (!Fits(dtype, *element)) return Tensor();
    values.push_back(*element);
  }
  return IntegerTensor(dtype, shape, values);
}

}  // namespace

absl::Status SetOutput(ShapeContext& c, absl::StatusOr<Shape> shape) {
  MF_RETURN_IF_ERROR(shape.status());
  c.set_output(0, *std::move(shape));
  return absl::OkStatus();
}

absl::Status SetOutputs(ShapeContext& c, std::initializer_list<Shape> shapes) {
  int i = 0;
  for (const Shape& shape : shapes) c.set_output(i++, shape);
  return absl::OkStatus();
}

absl::Status ScalarShape(ShapeContext& c) { return SetOutput(c, Shape()); }

absl::Status UnchangedShape(ShapeContext& c) { return SetOutput(c, c.input(0)); }

absl::Status SameShape(ShapeContext& c) {
  const std::vector<ArgDef>& inputs = c.node().op().inputs;
  return SetOutput(c, MergeShapes(c.input(0), c.input(1), inputs[1].name,
                                  " must have the shape of ", inputs[0].name));
}

absl::Status CheckHandle(const ShapeContext& c) {
  MF_RETURN_IF_ERROR(c.WithRank(0, 0).status());
  const DataType expected = c.handle_dtype(0), got = c.attr<DataType>("dtype");
  if (expected == DT_INVALID || expected == got) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("dtype must match the variable's dtype; expected ",
                                                 DataTypeName(expected), ", got ",
                                                 DataTypeName(got)));
}

absl::StatusOr<Shape> ShapeBeforePadding(const ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const Shape paddings, c.WithRank(1, 2));
  if (paddings.dim(1) != 2 && paddings.dim(1) != kUnknownDim) {
    return absl::InvalidArgumentError(
        absl::StrCat("paddings must have shape [rank,2], got ", paddings.ToString()));
  }
  return paddings.dim(0) == kUnknownDim ? c.input(0) : c.WithRank(0, paddings.dim(0));
}

std::optional<KnownElements> ElementsOf(const ShapeContext& c, int i) {
  const ValueInfo& info = c.input_info(i);
  if (!IsIndexType(c.node().input(i).dtype())) return std::nullopt;
  if (info.shape.unknown_rank() || info.shape.rank() > 1) return std::nullopt;
  if (!info.shape.IsFullyDefined() || info.shape.num_elements() > kMaxKnownElements)
    return std::nullopt;
  KnownElements elements(info.shape.num_elements());
  if (info.constant.has_value()) {
    const absl::StatusOr<std::vector<int64_t>> values = IntegersOf(info.constant);
    if (!values.ok()) return std::nullopt;
    elements.assign(values->begin(), values->end());
  } else if (info.as_shape.has_value() && !info.as_shape->unknown_rank()) {
    for (int d = 0; d < info.as_shape->rank(); ++d) {
      if (info.as_shape->dim(d) != kUnknownDim) elements[d] = info.as_shape->dim(d);
    }
  }
  return elements;
}

void SetVector(ShapeContext& c, int i, const KnownElements& elements) {
  const Shape shape({static_cast<int64_t>(elements.size())});
  c.set_output(i, shape);
  const DataType dtype = c.node().output_dtype(i);
  if (!IsIndexType(dtype) || shape.dim(0) > kMaxKnownElements) return;
  Tensor constant = ConstantOf(dtype, shape, elements);
  if (constant.has_value()) {
    c.set_constant(i, std::move(constant));
  } else if (elements.size() <= kMaxRank) {
    Shape::Dims dims;
    for (const std::optional<int64_t>& element : elements) {
      // Negative elements, and elements that `dtype` cannot hold, remain unknown.
      const bool known = element.has_value() && *element >= 0 && Fits(dtype, *element);
      dims.push_back(known ? *element : kUnknownDim);
    }
    c.set_output_as_shape(i, Shape(absl::MakeConstSpan(dims)));
  }
}

void SetScalar(ShapeContext& c, int i, std::optional<int64_t> element) {
  c.set_output(i, Shape());
  const DataType dtype = c.node().output_dtype(i);
  if (!IsIndexType(dtype)) return;
  Tensor constant = ConstantOf(dtype, Shape(), {element});
  if (constant.has_value()) c.set_constant(i, std::move(constant));
}

absl::StatusOr<std::optional<int64_t>> IntegerInput(const ShapeContext& c, int i) {
  const Shape& shape = c.input(i);
  if (shape.IsFullyDefined() && shape.num_elements() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("input ", i, " must have one element, got shape ", shape.ToString()));
  }
  const Tensor* value = c.constant(i);
  if (value == nullptr) return std::optional<int64_t>();
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> values, IntegersOf(*value));
  return std::optional<int64_t>(values[0]);
}

absl::StatusOr<std::optional<int64_t>> CountInput(const ShapeContext& c, int i) {
  MF_ASSIGN_OR_RETURN(const std::optional<int64_t> count, IntegerInput(c, i));
  if (count.value_or(0) >= 0) return count;
  return absl::InvalidArgumentError(
      absl::StrCat(c.node().op().inputs[i].name, " must be >= 0, got ", *count));
}

absl::StatusOr<Shape> SizesInput(const ShapeContext& c, int i, absl::string_view name) {
  MF_ASSIGN_OR_RETURN(Shape target, c.input_as_shape(i));
  if (c.constant(i) != nullptr && !target.IsFullyDefined()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " must have elements >= 0, got ", target.ToString()));
  }
  return target;
}

Tensor IntegerTensor(DataType dtype, const Shape& shape, absl::Span<const int64_t> values) {
  if (dtype == DT_INT64) return Tensor::Of<int64_t>(shape, values);
  const std::vector<int32_t> narrow(values.begin(), values.end());
  return Tensor::Of<int32_t>(shape, narrow);
}

Shape WithDim(const Shape& shape, int axis, int64_t size) {
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  dims.insert(dims.begin() + axis, size);
  return Shape(dims);
}

absl::StatusOr<std::vector<bool>> ReducedDimsMask(int rank, absl::Span<const int64_t> axes) {
  std::vector<bool> reduced(rank, false);
  for (int64_t axis : axes) {
    MF_ASSIGN_OR_RETURN(const int d, NormalizeAxis(axis, rank, "an element of reduction_indices"));
    if (reduced[d]) {
      return absl::InvalidArgumentError(absl::StrCat(
          "reduction_indices must list each dimension once, got dimension ", d, " twice"));
    }
    reduced[d] = true;
  }
  return reduced;
}

}  // namespace mirrorflow
