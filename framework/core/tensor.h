// SPDX-License-Identifier: Apache-2.0
//
// Tensor: a dense, row-major array in host memory. Programs feed tensors, fetch them and use them
// as constants. A copy shares the memory of its original, so a write through one is visible in the
// other; Clone() copies the memory.
#ifndef MIRRORFLOW_FRAMEWORK_CORE_TENSOR_H_
#define MIRRORFLOW_FRAMEWORK_CORE_TENSOR_H_

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/core/buffer.h"
#include "framework/core/dtype.h"
#include "framework/core/shape.h"
#include "framework/core/status.h"

namespace mirrorflow {

class Tensor {
 public:
  Tensor() = default;  // no value: dtype() is DT_INVALID

  // Returns InvalidArgument for a shape that is not fully defined or too large, or for a dtype
  // without a fixed element size.
  static absl::Status CheckType(DataType dtype, const Shape& shape);

  // Returns a tensor of zeros. Returns the error of CheckType, or ResourceExhausted if not enough
  // memory is available.
  static absl::StatusOr<Tensor> Allocate(DataType dtype, const Shape& shape);

  // Returns a tensor with `values` in row-major order, or InvalidArgument if their count does not
  // match the shape.
  template <typename T>
  static absl::StatusOr<Tensor> Create(const Shape& shape, absl::Span<const T> values) {
    MF_RETURN_IF_ERROR(CheckCount(DataTypeOf<T>(), shape, values.size()));
    MF_ASSIGN_OR_RETURN(Tensor t, Allocate(DataTypeOf<T>(), shape));
    std::copy(values.begin(), values.end(), t.data<T>());
    return t;
  }
  // Like Create, but terminates the process if count and shape do not match. Meant for shapes and
  // values that are spelled out in code.
  template <typename T>
  static Tensor Of(const Shape& shape, absl::Span<const T> values) {
    absl::StatusOr<Tensor> t = Create<T>(shape, values);
    if (!t.ok()) [[unlikely]]
      internal::Misused(t.status().message());
    return *std::move(t);
  }
  template <typename T>
  static Tensor Of(const Shape& shape, std::initializer_list<T> values) {
    return Of<T>(shape, absl::Span<const T>(values.begin(), values.size()));
  }
  // Return a tensor of shape [], and a tensor of shape [values.size()].
  template <typename T>
  static Tensor Scalar(T value) {
    return Of<T>(Shape(), {value});
  }
  template <typename T>
  static Tensor Vector(absl::Span<const T> values) {
    return Of<T>(Shape({static_cast<int64_t>(values.size())}), values);
  }

  // Returns a view of memory that `owner` keeps alive. If `owner` is null, the caller must keep the
  // memory alive.
  static Tensor View(DataType dtype, const Shape& shape, std::byte* data,
                     std::shared_ptr<const void> owner);

  // Returns a scalar zero stored in the object itself: it needs no allocation, and copies do not
  // share the value. Requires FitsInline(dtype).
  static Tensor InlineScalar(DataType dtype);
  static bool FitsInline(DataType dtype);
  bool is_inline() const { return is_inline_; }

  DataType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t num_elements() const { return shape_.num_elements(); }
  size_t bytes() const { return num_elements() * DataTypeSize(dtype_); }
  bool has_value() const { return dtype_ != DT_INVALID; }

  std::byte* raw() const { return is_inline_ ? const_cast<std::byte*>(scalar_) : data_; }
  // Returns all elements in row-major order, or InvalidArgument unless dtype() matches T.
  template <typename T>
  absl::StatusOr<absl::Span<T>> As() const {
    if (dtype_ != DataTypeOf<T>()) return WrongType(DataTypeOf<T>());
    return flat<T>();
  }
  // Accessors for callers that know the dtype: a different dtype terminates the process, and so
  // does scalar() on a tensor that does not have exactly one element.
  template <typename T>
  T* data() const {
    if (dtype_ != DataTypeOf<T>()) [[unlikely]] {
      internal::Misused(WrongType(DataTypeOf<T>()).message());
    }
    return reinterpret_cast<T*>(raw());
  }
  template <typename T>
  absl::Span<T> flat() const {
    return absl::MakeSpan(data<T>(), num_elements());
  }
  template <typename T>
  T scalar() const {
    const T* const value = data<T>();
    if (shape_.rank() != 0 && num_elements() != 1) [[unlikely]] {
      internal::Misused(NotScalar().message());
    }
    return *value;
  }

  // Returns a view of the same memory with another shape. Terminates the process if the element
  // count differs.
  Tensor Reshaped(const Shape& shape) const;
  // Returns a view of rows [begin, end) of the leading dimension. Terminates the process if the
  // tensor is a scalar or has no such rows.
  Tensor Rows(int64_t begin, int64_t end) const;
  // Returns a copy with its own memory, or ResourceExhausted if not enough memory is available.
  absl::StatusOr<Tensor> Clone() const;

  // Returns the dtype and the shape, such as `float[2,3]`.
  std::string TypeString() const;

  // Compares dtype, shape and contents bitwise, so NaN equals itself.
  static bool Identical(const Tensor& a, const Tensor& b);

 private:
  static absl::Status CheckCount(DataType dtype, const Shape& shape, size_t count);
  absl::Status WrongType(DataType asked) const;
  absl::Status NotScalar() const;

  DataType dtype_ = DT_INVALID;
  bool is_inline_ = false;  // the value is in scalar_
  Shape shape_;
  std::byte* data_ = nullptr;
  alignas(8) std::byte scalar_[8] = {};
  std::shared_ptr<const void> owner_;
};

// Returns the elements of an int32 or int64 tensor as int64, or InvalidArgument for any other
// dtype.
absl::StatusOr<std::vector<int64_t>> IntegersOf(const Tensor& tensor);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_TENSOR_H_
