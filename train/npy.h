// SPDX-License-Identifier: Apache-2.0
//
// Reads and writes npy files, NumPy's format of a single array (NumPy Enhancement Proposal 1).
//   \x93NUMPY | major, minor: uint8 | length of the header: uint16 (v1) or uint32 (v2, v3) |
//   header: a Python dict literal | the elements
#ifndef MIRRORFLOW_TRAIN_NPY_H_
#define MIRRORFLOW_TRAIN_NPY_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/tensor.h"

namespace mirrorflow {

// Reads the array in row-major order, whatever the order in the file. DataLoss, `path: what;
// expected …, got …`, for a file that breaks the format or is longer or shorter than its header
// declares. Unimplemented for elements that a tensor cannot hold: Python objects (loading them
// would execute code), text, records. Allocates nothing before the file is known to hold it.
absl::StatusOr<Tensor> ReadNpy(absl::string_view path);

// Reads the array from `size` bytes, which `read` returns in order. Errors do not name the path.
absl::StatusOr<Tensor> ReadNpyStream(uint64_t size,
                                     absl::FunctionRef<absl::Status(size_t size, void* out)> read);

// Writes, atomically, the same bytes as numpy.save. Unimplemented for bfloat16, which NumPy does
// not have (a .safetensors file can hold it).
absl::Status WriteNpy(absl::string_view path, const Tensor& tensor);

// Returns the bytes that precede the elements in an npy file.
absl::StatusOr<std::string> NpyHeader(const Tensor& tensor);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_NPY_H_
