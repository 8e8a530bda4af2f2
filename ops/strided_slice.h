// SPDX-License-Identifier: Apache-2.0
//
// StridedSlice: NumPy's x[begin:end:stride, …, newaxis, index], and its gradient op.
#ifndef MIRRORFLOW_OPS_STRIDED_SLICE_H_
#define MIRRORFLOW_OPS_STRIDED_SLICE_H_

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/core/shape.h"
#include "framework/core/status.h"
#include "framework/graph/scope.h"

namespace mirrorflow {

// TensorFlow's operands and masks, resolved for one input shape to the first index, the stride and
// the number of elements of each input dimension.
struct StridedSliceSpec {
  struct Dim {
    int64_t begin = 0;
    int64_t stride = 1;
    int64_t size = kUnknownDim;
    bool shrink = false;  // a single index, so the output lacks the dimension
    // True if the slice leaves the dimension unchanged, whatever its size.
    bool whole = false;
  };
  static constexpr int kNewAxis = -1;

  absl::InlinedVector<Dim, 4> dims;    // one for each dimension of the input
  absl::InlinedVector<int, 4> output;  // the input dimension of each output dimension
  Shape output_shape() const;
};

// The masks of a StridedSlice or StridedSliceGrad: bit i refers to entry i of begin, end, strides.
struct StridedSliceMasks {
  int64_t begin = 0, end = 0, ellipsis = 0, new_axis = 0, shrink_axis = 0;
  static StridedSliceMasks Of(const Node& node);
};

// Resolves the `num_entries` entries begin[i]:end[i]:strides[i] against `input`. The rank of
// `input` must be known; a span is empty if its values are not yet known. Returns InvalidArgument
// for invalid entries.
absl::StatusOr<StridedSliceSpec> ReadStridedSlice(const Shape& input, int num_entries,
                                                  absl::Span<const int64_t> begin,
                                                  absl::Span<const int64_t> end,
                                                  absl::Span<const int64_t> strides,
                                                  const StridedSliceMasks& masks);

// Resolves the static inputs 1 to 3 of a StridedSlice or StridedSliceGrad against `input`. The
// context is that of a kernel or of a sharding rule.
template <typename Context>
absl::StatusOr<StridedSliceSpec> ReadStridedSlice(const Context& c, const Shape& input) {
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> begin, c.integers(1));
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> end, c.integers(2));
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> strides, c.integers(3));
  return ReadStridedSlice(input, static_cast<int>(begin.size()), begin, end, strides,
                          StridedSliceMasks::Of(c.node()));
}

namespace ops {

struct StridedSliceOptions {
  int64_t begin_mask = 0;     // bit i: entry i starts at the start of the dimension
  int64_t end_mask = 0;       // bit i: entry i stops at the end of the dimension
  int64_t ellipsis_mask = 0;  // bit i: entry i stands for all remaining dimensions
  int64_t new_axis_mask = 0;  // bit i: entry i is a new dimension of size 1
  int64_t shrink_axis_mask =
      0;  // bit i: entry i is the index begin[i], which removes the dimension
};

// StridedSlice: y[i] = x[begin + stride * i] in each dimension; negative indices count from the
// end.
// Shapes:   begin, end and strides [N] must be known when the step is compiled.
// Errors:   InvalidArgument if a stride is 0 or an index is out of range; ranges are clamped to the
//           dimension.
// Gradient: StridedSliceGrad.
Output StridedSlice(const Scope& scope, Output input, Output begin, Output end, Output strides,
                    const StridedSliceOptions& options = {});

// StridedSliceGrad: zeros of shape `shape`, with dy at the positions that StridedSlice reads.
// `shape` must be known when the step is compiled.
Output StridedSliceGrad(const Scope& scope, Output shape, Output begin, Output end, Output strides,
                        Output dy, const StridedSliceOptions& options = {});

// Returns element `index` of a vector as a scalar.
Output ElementOf(const Scope& scope, Output vector, int64_t index);

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_STRIDED_SLICE_H_
