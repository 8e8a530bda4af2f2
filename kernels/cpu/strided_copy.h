// SPDX-License-Identifier: Apache-2.0
//
// StridedCopy: moves a box of elements from one layout to another. A slice, a transposition, a
// repetition (stride 0) and a concatenation differ in their strides only, so their kernels do too.
#ifndef MIRRORFLOW_KERNELS_CPU_STRIDED_COPY_H_
#define MIRRORFLOW_KERNELS_CPU_STRIDED_COPY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/core/shape.h"
#include "framework/runtime/kernel_registry.h"

namespace mirrorflow {

// Immutable after construction; Run may be called from several threads at once.
class StridedCopy {
 public:
  // One loop: `size` steps, each so many elements further in the input and in the output. A stride
  // may be negative; that of the input may be 0.
  struct Dim {
    int64_t size;
    int64_t in_stride;
    int64_t out_stride;
  };

  // Loops from the outermost to the innermost. No element of the output is written twice, and input
  // and output do not overlap. Offsets in elements.
  StridedCopy(DataType dtype, absl::Span<const Dim> dims, int64_t in_offset = 0,
              int64_t out_offset = 0);

  void Run(const std::byte* in, std::byte* out) const;

 private:
  template <typename T>
  void RunAs(const std::byte* in, std::byte* out) const;

  // Loops of more than one step that cannot be merged with the next.
  absl::InlinedVector<Dim, 6> dims_;
  bool empty_ = false;
  // The two innermost loops read along the one and write along the other dimension.
  bool transposes_ = false;
  size_t element_bytes_;
  int64_t in_offset_;
  int64_t out_offset_;
};

// What make(TypeTag<Bits>()) makes for the unsigned numbers of this dtype's size, as which elements
// can be moved; Unimplemented for other sizes.
template <typename Make>
absl::StatusOr<KernelPlan> ForElementSize(DataType dtype, const Make& make) {
  switch (DataTypeSize(dtype)) {
    case 1:
      return make(TypeTag<uint8_t>());
    case 2:
      return make(TypeTag<uint16_t>());
    case 4:
      return make(TypeTag<uint32_t>());
    case 8:
      return make(TypeTag<uint64_t>());
    default:
      return UnsupportedDataType(dtype);
  }
}

// Row-major strides in elements.
std::vector<int64_t> StridesOf(const Shape& shape);

// Input `input` of a node is copied to its output `output`.
struct Move {
  int input;
  int output;
  StridedCopy copy;
};

// A kernel that sets the first `zero_bytes` of output 0 to 0 and then makes the moves, of elements
// of `dtype`. Unimplemented for a dtype without a fixed size.
absl::StatusOr<KernelPlan> CopyKernel(DataType dtype, std::vector<Move> moves,
                                      int64_t zero_bytes = 0);
// A kernel whose output 0 is `value`.
absl::StatusOr<KernelPlan> ConstantKernel(const Tensor& value);

// How many combinations of indices there are of the dimensions before `axis`, and how many elements
// come with one of them.
int64_t NumRows(const Shape& shape, int axis);
int64_t RowSize(const Shape& shape, int axis);

// Bytes of a value of this shape.
int64_t BytesOf(DataType dtype, const Shape& shape);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_STRIDED_COPY_H_
