// SPDX-License-Identifier: Apache-2.0
//
// What shape functions of these ops know of values: integer scalars and vectors whose elements may
// be known one by one. It is what carries the batch size through x.shape()[0], Pack, Reshape.
#ifndef MIRRORFLOW_OPS_SHAPE_VALUES_H_
#define MIRRORFLOW_OPS_SHAPE_VALUES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/graph/shape_inference.h"

namespace mirrorflow {

// Longer vectors are data, not shapes or axes.
inline constexpr int64_t kMaxKnownElements = 64;

// An element that is not known is nothing.
using KnownElements = std::vector<std::optional<int64_t>>;

// The elements of input i; nothing if it is not an int32 or int64 scalar or vector of known, small
// length.
std::optional<KnownElements> ElementsOf(const ShapeContext& c, int i);
// Says that output i is a vector of these (or, given one element, a scalar). No effect on an output
// of another dtype or of too many elements, whose shape is set all the same.
void SetVector(ShapeContext& c, int i, const KnownElements& elements);
void SetScalar(ShapeContext& c, int i, std::optional<int64_t> element);

// Input i, which must have one element, as an integer; nothing if it is not constant.
absl::StatusOr<std::optional<int64_t>> IntegerInput(const ShapeContext& c, int i);
// Static input i, a vector of sizes, as a shape known in part. InvalidArgument for a size below 0.
absl::StatusOr<Shape> SizesInput(const ShapeContext& c, int i, absl::string_view name);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_SHAPE_VALUES_H_
