// SPDX-License-Identifier: Apache-2.0
//
// npy files: one array each, as numpy.save writes them (NumPy Enhancement Proposal 1).
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

// The array, in row-major order whatever the file's is. DataLoss, `path: what; expected …, got …`,
// for a file that breaks the format or that is longer or shorter than it says; Unimplemented for
// elements that no tensor holds: Python objects (whose bytes would be run as code), text, records.
// Nothing is allocated before the file is known to hold it.
absl::StatusOr<Tensor> ReadNpy(absl::string_view path);

// Likewise from `size` bytes that `read` gives one after the other. Errors do not name the path.
absl::StatusOr<Tensor> ReadNpyStream(uint64_t size,
                                     absl::FunctionRef<absl::Status(size_t size, void* out)> read);

// Writes byte for byte what numpy.save would, atomically. Unimplemented for bfloat16, which NumPy
// does not know (a .safetensors file holds it).
absl::Status WriteNpy(absl::string_view path, const Tensor& tensor);

// What stands before the elements in such a file.
absl::StatusOr<std::string> NpyHeader(const Tensor& tensor);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_NPY_H_
