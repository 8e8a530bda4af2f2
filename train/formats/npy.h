// SPDX-License-Identifier: Apache-2.0
//
// Reads and writes npy files, NumPy's format for a single array (NumPy Enhancement Proposal 1).
//   \x93NUMPY | major, minor: uint8 | length of the header: uint16 (v1) or uint32 (v2, v3) |
//   header: a Python dict literal | the elements
#ifndef MIRRORFLOW_TRAIN_FORMATS_NPY_H_
#define MIRRORFLOW_TRAIN_FORMATS_NPY_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/file.h"
#include "framework/core/tensor.h"
#include "train/formats/mapped_file.h"

namespace mirrorflow {

// Reads the array into row-major order, whatever its order in the file. DataLoss, `path: what;
// expected …, got …`, if the file violates the format, or is longer or shorter than its header
// declares. Unimplemented for elements that a tensor cannot hold: Python objects (loading them
// would execute code), text, structured dtypes. Checks that the file is large enough before
// allocating memory.
absl::StatusOr<Tensor> ReadNpy(absl::string_view path);

// ReadNpy() for arrays larger than memory: the tensor shares a read-only mapping of the file, which
// the operating system reads on access. Arrays in another byte order, in column-major order or at
// an unaligned offset are copied instead. A program that writes to the tensor is killed, and so is
// one that reads it after the file was truncated.
absl::StatusOr<Tensor> MapNpy(absl::string_view path);

// MapNpy() for the `size` bytes at `offset` of a larger file, except that it returns a tensor
// without a value if the array must be read. Creates the mapping if it is null and one is needed.
// Errors omit the path.
absl::StatusOr<Tensor> MapNpyPart(const InputFile& file, uint64_t offset, uint64_t size,
                                  std::shared_ptr<const MappedFile>* mapping);

// Reads the array from `size` bytes, which `read` returns in order. Errors omit the path.
absl::StatusOr<Tensor> ReadNpyStream(uint64_t size,
                                     absl::FunctionRef<absl::Status(size_t size, void* out)> read);

// Atomically writes the same bytes as numpy.save. Unimplemented for bfloat16, which NumPy lacks
// (use a .safetensors file).
absl::Status WriteNpy(absl::string_view path, const Tensor& tensor);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_FORMATS_NPY_H_
