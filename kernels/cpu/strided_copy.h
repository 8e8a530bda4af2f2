// SPDX-License-Identifier: Apache-2.0
//
// StridedCopy copies a box of elements from one layout to another. Slices, transpositions,
// repetitions (stride 0) and concatenations differ only in their strides, so all their kernels use
// this class.
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

// Immutable after construction; several threads can call Run at once.
class StridedCopy {
 public:
  // One loop of `size` steps. The strides are in elements and may be negative; the input
  // stride may also be 0.
  struct Dim {
    int64_t size;
    int64_t in_stride;
    int64_t out_stride;
  };

  // `dims` lists the loops from the outermost to the innermost. Offsets are in elements. Requires
  // that no output element is written twice and that input and output do not overlap. The input may
  // also be stored at its destination.
  StridedCopy(DataType dtype, absl::Span<const Dim> dims, int64_t in_offset = 0,
              int64_t out_offset = 0);

  // Does nothing if the input is stored at its destination.
  void Run(const std::byte* in, std::byte* out) const;

 private:
  template <typename T>
  void RunAs(const std::byte* in, std::byte* out) const;

  // The loops that have more than one step and cannot be merged with the next loop.
  absl::InlinedVector<Dim, 6> dims_;
  bool empty_ = false;
  // Whether the two innermost loops transpose: one reads and the other writes contiguously.
  bool transposes_ = false;
  size_t element_bytes_;
  int64_t in_offset_;
  int64_t out_offset_;
};

// Returns make(TypeTag<U>()), where U is the unsigned type of this dtype's size, for kernels that
// only copy elements. Returns Unimplemented if no such type exists.
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

// Copies input `input` of a node to its output `output`.
struct Move {
  int input;
  int output;
  StridedCopy copy;
};

// Returns a kernel that zeroes the first `zero_bytes` of output 0, then performs `moves` on
// elements of `dtype`. Returns Unimplemented if `dtype` has no fixed size.
absl::StatusOr<KernelPlan> CopyKernel(DataType dtype, std::vector<Move> moves,
                                      int64_t zero_bytes = 0);
// Returns a kernel whose outputs are `values`.
absl::StatusOr<KernelPlan> ConstantKernel(std::vector<Tensor> values);

// Returns the size in bytes of a value of this shape.
int64_t BytesOf(DataType dtype, const Shape& shape);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_STRIDED_COPY_H_
