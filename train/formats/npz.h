// SPDX-License-Identifier: Apache-2.0
//
// Reads and writes npz files, NumPy's format for named arrays: zip archives of npy files, as
// written by numpy.savez and numpy.savez_compressed.
#ifndef MIRRORFLOW_TRAIN_FORMATS_NPZ_H_
#define MIRRORFLOW_TRAIN_FORMATS_NPZ_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/tensor.h"

namespace mirrorflow {

// Returns the names of all arrays (without `.npy`), in alphabetical order. Ignores other members of
// the archive.
absl::StatusOr<std::vector<std::string>> NpzNames(absl::string_view path);

// Returns all arrays by name. Errors begin with the path and the array's name. Returns DataLoss for
// a file that violates the zip or npy format or has a wrong checksum, and Unimplemented for
// elements that ReadNpy does not support, for compression other than deflate, and for encryption.
// Never uses the archive's names as file paths. Never allocates more memory than the archive's
// contents can fill after inflation.
absl::StatusOr<std::map<std::string, Tensor>> ReadNpz(absl::string_view path);

// Returns the arrays with these names, in this order. Other arrays in the file can be unreadable.
// Returns NotFound for a name that is not in the file, and the errors of ReadNpz. Uncompressed
// arrays at an aligned offset share a read-only mapping of the file (MapNpy), and their checksums
// are not verified.
absl::StatusOr<std::vector<Tensor>> MapNpz(absl::string_view path,
                                           const std::vector<std::string>& names);

// Returns a status for each array, by name: OK if MapNpz can read it, otherwise the error. Opens
// the file only once.
absl::StatusOr<std::map<std::string, absl::Status>> CheckNpz(absl::string_view path);

// Writes an uncompressed file that NumPy can read. A crash leaves either the old or the new file.
// Returns Unimplemented for bfloat16, which NumPy does not have.
absl::Status WriteNpz(absl::string_view path, const std::map<std::string, Tensor>& arrays);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_FORMATS_NPZ_H_
