// SPDX-License-Identifier: Apache-2.0
//
// Reads and writes npy files, NumPy's format for a single array (NumPy Enhancement Proposal 1).
//   \x93NUMPY | major, minor: uint8 | header length: uint16 (v1) or uint32 (v2, v3) |
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

// Reads the array of a file (numpy.load), and converts it to row-major order if necessary. Returns
// NotFound if the file does not exist; DataLoss, `path: what; expected …, got …`, if it violates
// the format, or is longer or shorter than its header declares; and Unimplemented for elements that
// a tensor cannot hold: Python objects (loading them would execute code), text, structured dtypes.
// Checks that the file is large enough before allocating memory.
absl::StatusOr<Tensor> ReadNpy(absl::string_view path);

// Like ReadNpy(), also for arrays larger than memory: the tensor shares a read-only mapping of the
// file, which the operating system reads on access. Arrays in another byte order, in column-major
// order or at an unaligned offset are copied instead. A program that writes to the tensor is
// killed, and so is a program that reads the tensor after the file was truncated.
absl::StatusOr<Tensor> MapNpy(absl::string_view path);

// Like MapNpy(), for the `size` bytes at `offset` of a larger file. But if the array cannot be
// mapped, returns a tensor without a value instead of a copy. Creates the mapping if it is null and
// needed. Errors omit the path.
absl::StatusOr<Tensor> MapNpyPart(const InputFile& file, uint64_t offset, uint64_t size,
                                  std::shared_ptr<const MappedFile>* mapping);

// Like ReadNpy(), for a stream of `size` bytes, which `read` returns in order. Errors omit the
// path.
absl::StatusOr<Tensor> ReadNpyStream(uint64_t size,
                                     absl::FunctionRef<absl::Status(size_t size, void* out)> read);

// Writes a file, with the same bytes as numpy.save. A crash leaves either the old or the new file.
// Returns Unimplemented for bfloat16, which NumPy does not have (use a .safetensors file).
absl::Status WriteNpy(absl::string_view path, const Tensor& tensor);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_FORMATS_NPY_H_
