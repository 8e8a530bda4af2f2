// SPDX-License-Identifier: Apache-2.0
//
// Shape: the dimensions of a tensor, fully or partially known. One class serves both cases
// (TensorFlow has TensorShape and PartialTensorShape): an unknown dimension is kUnknownDim, and the
// rank itself may be unknown. Arithmetic on sizes is checked; nothing here overflows silently.
#ifndef MIRRORFLOW_FRAMEWORK_CORE_SHAPE_H_
#define MIRRORFLOW_FRAMEWORK_CORE_SHAPE_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/core/dtype.h"

namespace mirrorflow {

inline constexpr int64_t kUnknownDim = -1;
inline constexpr int kMaxRank = 8;

class Shape {
 public:
  using Dims = absl::InlinedVector<int64_t, 4>;

  Shape() = default;  // a scalar
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit Shape(absl::Span<const int64_t> dims) : dims_(dims.begin(), dims.end()) {}
  static Shape UnknownRank() {
    Shape s;
    s.unknown_rank_ = true;
    return s;
  }
  static Shape UnknownDims(int rank) { return Shape(Dims(rank, kUnknownDim)); }

  bool unknown_rank() const { return unknown_rank_; }
  // Requires a known rank, as do dims(), dim(i) and the mutators.
  int rank() const { return static_cast<int>(dims_.size()); }
  int64_t dim(int i) const { return dims_[i]; }
  absl::Span<const int64_t> dims() const { return dims_; }
  bool IsFullyDefined() const;

  void set_dim(int i, int64_t size) { dims_[i] = size; }
  void AddDim(int64_t size) { dims_.push_back(size); }

  // Returns the product of the dimensions. Requires IsFullyDefined(), and a shape that Validate()
  // accepts. The result for a scalar is 1.
  int64_t num_elements() const;
  // Return the product of the dimensions before `axis`, and the product of `axis` and the
  // dimensions after it.
  int64_t num_elements_before(int axis) const;
  int64_t num_elements_from(int axis) const;
  // Returns the strides of a contiguous row-major tensor, in elements.
  std::vector<int64_t> Strides() const;

  // Returns InvalidArgument if a dimension is below -1, the rank exceeds kMaxRank, or the byte size
  // with elements of `dtype` overflows; unknown dimensions count as 1.
  absl::Status Validate(DataType dtype) const;

  // Returns true if some fully defined shape matches both.
  bool IsCompatibleWith(const Shape& other) const { return MergeWith(other).ok(); }
  // Returns a shape with the dimensions that are known in either shape, or InvalidArgument if they
  // contradict each other.
  absl::StatusOr<Shape> MergeWith(const Shape& other) const;

  // Formats the shape as `[2,3]`, `[?,784]`, `[]` or `[*]` (unknown rank).
  std::string ToString() const;

  friend bool operator==(const Shape& a, const Shape& b) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Shape& s) {
    return H::combine(std::move(h), s.unknown_rank_, s.dims_);
  }

 private:
  explicit Shape(Dims dims) : dims_(std::move(dims)) {}

  Dims dims_;
  bool unknown_rank_ = false;
};

// Returns a * b, or InvalidArgument if the product overflows. Both must be >= 0.
absl::StatusOr<int64_t> CheckedMultiply(int64_t a, int64_t b);

// Returns the shape that results from broadcasting `a` and `b` by NumPy's rules, or InvalidArgument
// if they are incompatible. Dimensions and ranks can be unknown.
absl::StatusOr<Shape> BroadcastShapes(const Shape& a, const Shape& b);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_SHAPE_H_
