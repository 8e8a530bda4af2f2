// SPDX-License-Identifier: Apache-2.0
//
// Reads and writes the header of an npy file, which describes the array and locates its elements.
#ifndef MIRRORFLOW_TRAIN_FORMATS_NPY_HEADER_H_
#define MIRRORFLOW_TRAIN_FORMATS_NPY_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/tensor.h"

namespace mirrorflow {

// The element type of an array. `descr` is NumPy's type code without the byte order, which is `<`,
// `>`, or `|` for single bytes.
struct NpyElement {
  absl::string_view descr;
  DataType dtype;
  size_t swapped_bytes;  // size of the unit of byte swapping; for complex numbers, half an element
};

// The array in a file, as the header describes it.
struct NpyArray {
  const NpyElement* element;
  Shape shape;
  bool swapped;        // big-endian
  bool column_major;   // false if the rank is below 2
  uint64_t begin = 0;  // offset of the elements in the file
  uint64_t bytes() const { return shape.num_elements() * DataTypeSize(element->dtype); }
};

// Reads the start of a file of `size` bytes, which `read` returns in order, up to the first
// element. Returns DataLoss if the file is longer or shorter than its header declares.
absl::StatusOr<NpyArray> ReadNpyHeader(
    uint64_t size, absl::FunctionRef<absl::Status(size_t size, void* out)> read);

// Returns the bytes that precede the elements in an npy file.
absl::StatusOr<std::string> NpyHeader(const Tensor& tensor);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_FORMATS_NPY_HEADER_H_
