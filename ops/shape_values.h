// SPDX-License-Identifier: Apache-2.0
//
// Helpers for shape functions and kernels: shape functions that several ops share, and partially
// known values, which are integer scalars and vectors whose elements need not all be known.
// Partially known values carry the batch size through x.shape()[0], Pack and Reshape.
#ifndef MIRRORFLOW_OPS_SHAPE_VALUES_H_
#define MIRRORFLOW_OPS_SHAPE_VALUES_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "framework/graph/shape_inference.h"

namespace mirrorflow {

// Sets the shape of output 0, or returns the error. Shape functions end with it.
absl::Status SetOutput(ShapeContext& c, absl::StatusOr<Shape> shape);
// Sets the shapes of all outputs.
absl::Status SetOutputs(ShapeContext& c, std::initializer_list<Shape> shapes);

// Shape function: output 0 is a scalar.
absl::Status ScalarShape(ShapeContext& c);
// Shape function: output 0 has the shape of input 0.
absl::Status UnchangedShape(ShapeContext& c);
// Shape function: inputs 0 and 1 and output 0 have the same shape.
absl::Status SameShape(ShapeContext& c);
// Returns the shape that matches both shapes. If there is none, returns InvalidArgument: the texts
// `must`, followed by both shapes.
template <typename... Must>
absl::StatusOr<Shape> MergeShapes(const Shape& expected, const Shape& got, const Must&... must) {
  absl::StatusOr<Shape> merged = expected.MergeWith(got);
  if (merged.ok()) return merged;
  return absl::InvalidArgumentError(
      absl::StrCat(must..., "; expected ", expected.ToString(), ", got ", got.ToString()));
}
// Returns the error of MergeShapes, if any.
template <typename... Must>
absl::Status CheckShape(const Shape& expected, const Shape& got, const Must&... must) {
  return MergeShapes(expected, got, must...).status();
}
// Checks that input 0 is the handle of a variable of the dtype in attribute `dtype`, if its dtype
// is known.
absl::Status CheckHandle(const ShapeContext& c);
// Checks that input 1 holds paddings [rank,2] for input 0. Returns the shape of input 0.
absl::StatusOr<Shape> ShapeBeforePadding(const ShapeContext& c);

// Longer vectors are not tracked: they are data, not shapes or axes.
inline constexpr int64_t kMaxKnownElements = 64;

// The elements of a partially known value; an unknown element is nullopt.
using KnownElements = std::vector<std::optional<int64_t>>;

// Returns the elements of input i, or nullopt unless it is an int32 or int64 scalar, or such a
// vector of known, small length.
std::optional<KnownElements> ElementsOf(const ShapeContext& c, int i);
// Sets output i to a vector of `elements` (or a scalar `element`). If the output's dtype is neither
// int32 nor int64, or there are too many elements, sets only the shape.
void SetVector(ShapeContext& c, int i, const KnownElements& elements);
void SetScalar(ShapeContext& c, int i, std::optional<int64_t> element);

// Returns input i, which must have one element, as an integer, or nullopt if it is not constant.
absl::StatusOr<std::optional<int64_t>> IntegerInput(const ShapeContext& c, int i);
// Like IntegerInput, but returns InvalidArgument if the integer is negative.
absl::StatusOr<std::optional<int64_t>> CountInput(const ShapeContext& c, int i);
// Returns static input i, a vector of sizes, as a partially known shape, or InvalidArgument if a
// size is negative.
absl::StatusOr<Shape> SizesInput(const ShapeContext& c, int i, absl::string_view name);

// Returns a tensor of dtype int32 or int64 with these elements, which must fit.
Tensor IntegerTensor(DataType dtype, const Shape& shape, absl::Span<const int64_t> values);

// Returns the shape with a dimension of `size` inserted before dimension `axis`.
Shape WithDim(const Shape& shape, int axis, int64_t size);
// Returns, for each of `rank` dimensions, whether `axes` contains it. Returns InvalidArgument if an
// axis is out of range or listed twice.
absl::StatusOr<std::vector<bool>> ReducedDimsMask(int rank, absl::Span<const int64_t> axes);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_SHAPE_VALUES_H_
