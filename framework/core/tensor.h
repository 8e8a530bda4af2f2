// SPDX-License-Identifier: Apache-2.0
//
// Tensor: a dense, row-major array on the host. What users feed and fetch, and what constants are
// made of; inside a plan there are no tensors, only operands. Copies share the buffer.
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

  // Zeros. InvalidArgument for a shape that is not fully defined or too large, or a dtype without
  // a fixed element size; ResourceExhausted without memory.
  static absl::StatusOr<Tensor> Allocate(DataType dtype, const Shape& shape);

  // For shapes and values written in code: a scalar, a vector, any shape. Dies on a mismatch.
  template <typename T>
  static Tensor Scalar(T value) {
    return Of<T>(Shape(), {value});
  }
  template <typename T>
  static Tensor Vector(absl::Span<const T> values) {
    return Of<T>(Shape({static_cast<int64_t>(values.size())}), values);
  }
  template <typename T>
  static Tensor Of(const Shape& shape, absl::Span<const T> values) {
    absl::StatusOr<Tensor> t = Allocate(DataTypeOf<T>(), shape);
    MF_CHECK(t.ok() && t->num_elements() == static_cast<int64_t>(values.size()));
    std::copy(values.begin(), values.end(), t->data<T>());
    return *std::move(t);
  }
  template <typename T>
  static Tensor Of(const Shape& shape, std::initializer_list<T> values) {
    return Of<T>(shape, absl::Span<const T>(values.begin(), values.size()));
  }

  // A view of memory that somebody else owns: `owner` is kept alive as long as the view.
  static Tensor View(DataType dtype, const Shape& shape, std::byte* data,
                     std::shared_ptr<const void> owner);

  DataType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t num_elements() const { return shape_.num_elements(); }
  size_t bytes() const { return num_elements() * DataTypeSize(dtype_); }
  bool has_value() const { return dtype_ != DT_INVALID; }

  std::byte* raw() const { return data_; }
  // Requires dtype() == DataTypeOf<T>().
  template <typename T>
  T* data() const {
    MF_CHECK(dtype_ == DataTypeOf<T>());
    return reinterpret_cast<T*>(data_);
  }
  template <typename T>
  absl::Span<T> flat() const {
    return absl::MakeSpan(data<T>(), num_elements());
  }
  template <typename T>
  T scalar() const {
    return flat<T>()[0];
  }

  // The same memory under another shape of as many elements.
  Tensor Reshaped(const Shape& shape) const;
  // Rows [begin, end) of the leading dimension, sharing memory. Requires rank >= 1.
  Tensor Rows(int64_t begin, int64_t end) const;
  // A copy with its own memory.
  absl::StatusOr<Tensor> Clone() const;

  // Bitwise equality of dtype, shape and contents (NaN equals itself).
  static bool Identical(const Tensor& a, const Tensor& b);

 private:
  DataType dtype_ = DT_INVALID;
  Shape shape_;
  std::byte* data_ = nullptr;
  std::shared_ptr<const void> owner_;
};

// The elements of an integer tensor (int32 or int64) as int64.
absl::StatusOr<std::vector<int64_t>> IntegersOf(const Tensor& tensor);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_TENSOR_H_
