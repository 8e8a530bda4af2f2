// SPDX-License-Identifier: Apache-2.0
#include "framework/core/tensor.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace mirrorflow {

absl::Status Tensor::CheckType(DataType dtype, const Shape& shape) {
  if (DataTypeSize(dtype) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a tensor cannot hold elements of dtype ", DataTypeName(dtype)));
  }
  if (!shape.IsFullyDefined()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a tensor must have a fully defined shape, got ", shape.ToString()));
  }
  return shape.Validate(dtype);
}

absl::StatusOr<Tensor> Tensor::Allocate(DataType dtype, const Shape& shape) {
  MF_RETURN_IF_ERROR(CheckType(dtype, shape));
  MF_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> buffer,
                      Buffer::Allocate(shape.num_elements() * DataTypeSize(dtype)));
  std::byte* data = buffer->data();
  return View(dtype, shape, data, std::move(buffer));
}

Tensor Tensor::View(DataType dtype, const Shape& shape, std::byte* data,
                    std::shared_ptr<const void> owner) {
  Tensor t;
  t.dtype_ = dtype;
  t.shape_ = shape;
  t.data_ = data;
  t.owner_ = std::move(owner);
  return t;
}

bool Tensor::FitsInline(DataType dtype) {
  return DataTypeSize(dtype) > 0 && DataTypeSize(dtype) <= sizeof(scalar_);
}

Tensor Tensor::InlineScalar(DataType dtype) {
  MF_CHECK(FitsInline(dtype));
  Tensor t;
  t.dtype_ = dtype;
  t.is_inline_ = true;
  return t;
}

std::string Tensor::TypeString() const {
  return has_value() ? absl::StrCat(DataTypeName(dtype_), shape_.ToString()) : "no value";
}

absl::Status Tensor::CheckCount(DataType dtype, const Shape& shape, size_t count) {
  if (!shape.IsFullyDefined() || !shape.Validate(dtype).ok())
    return absl::OkStatus();  // Allocate reports it
  if (shape.num_elements() == static_cast<int64_t>(count)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("Tensor: wrong number of values for ", DataTypeName(dtype), shape.ToString(),
                   "; expected ", shape.num_elements(), ", got ", count));
}

absl::Status Tensor::WrongType(DataType asked) const {
  return absl::InvalidArgumentError(absl::StrCat(
      "Tensor: wrong dtype; expected ", DataTypeName(asked), " elements, got ", TypeString()));
}

absl::Status Tensor::NotScalar() const {
  return absl::InvalidArgumentError(absl::StrCat("Tensor: not a scalar; expected one element, got ",
                                                 num_elements(), " in ", TypeString()));
}

Tensor Tensor::Reshaped(const Shape& shape) const {
  if (shape.num_elements() != num_elements()) {
    internal::Misused(absl::StrCat("Tensor::Reshaped: expected a shape with ", num_elements(),
                                   " elements for ", TypeString(), ", got ", shape.ToString()));
  }
  Tensor t = *this;
  t.shape_ = shape;
  return t;
}

Tensor Tensor::Rows(int64_t begin, int64_t end) const {
  if (shape_.rank() < 1 || begin < 0 || begin > end || end > shape_.dim(0)) {
    internal::Misused(
        absl::StrCat("Tensor::Rows: no rows [", begin, ", ", end, ") in ", TypeString()));
  }
  Tensor t = *this;
  t.shape_.set_dim(0, 1);
  const size_t row_bytes = t.shape_.num_elements() * DataTypeSize(dtype_);
  t.shape_.set_dim(0, end - begin);
  t.data_ = data_ + begin * row_bytes;
  return t;
}

absl::StatusOr<Tensor> Tensor::Clone() const {
  if (!has_value()) return Tensor();
  MF_ASSIGN_OR_RETURN(Tensor copy, Allocate(dtype_, shape_));
  std::memcpy(copy.raw(), raw(), bytes());
  return copy;
}

bool Tensor::Identical(const Tensor& a, const Tensor& b) {
  if (a.dtype_ != b.dtype_ || a.shape_ != b.shape_) return false;
  return !a.has_value() || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

absl::StatusOr<std::vector<int64_t>> IntegersOf(const Tensor& tensor) {
  std::vector<int64_t> values;
  if (tensor.dtype() == DT_INT32) {
    values.assign(tensor.flat<int32_t>().begin(), tensor.flat<int32_t>().end());
  } else if (tensor.dtype() == DT_INT64) {
    values.assign(tensor.flat<int64_t>().begin(), tensor.flat<int64_t>().end());
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("expected int32 or int64 values, got ", DataTypeName(tensor.dtype())));
  }
  return values;
}

}  // namespace mirrorflow
