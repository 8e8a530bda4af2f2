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

// Returns all arrays by name, or an error that begins with the path and the name: DataLoss for a
// file that violates the zip or npy format or fails its checksum; Unimplemented for arrays that
// ReadNpy rejects, for compression other than deflate, and for encryption. Names are never used as
// paths. Never allocates more than the file, compressed or not, can hold.
absl::StatusOr<std::map<std::string, Tensor>> ReadNpz(absl::string_view path);

// Returns these arrays, in this order. Other arrays of the file may be unreadable. NotFound for a
// name that the file lacks. Uncompressed arrays at an aligned offset share a read-only mapping of
// the file (MapNpy), and their checksums are not verified.
absl::StatusOr<std::vector<Tensor>> MapNpz(absl::string_view path,
                                           const std::vector<std::string>& names);

// Returns, by name, whether MapNpz can read each array. Opens the file once.
absl::StatusOr<std::map<std::string, absl::Status>> CheckNpz(absl::string_view path);

// Atomically writes an uncompressed file that NumPy can read. Unimplemented for bfloat16, which
// NumPy lacks.
absl::Status WriteNpz(absl::string_view path, const std::map<std::string, Tensor>& arrays);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_FORMATS_NPZ_H_
