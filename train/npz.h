// SPDX-License-Identifier: Apache-2.0
//
// npz files: named arrays, as numpy.savez and numpy.savez_compressed write them: a zip archive of
// npy files.
#ifndef MIRRORFLOW_TRAIN_NPZ_H_
#define MIRRORFLOW_TRAIN_NPZ_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/tensor.h"

namespace mirrorflow {

// All arrays by name (without `.npy`), or an error that begins with the path and the name: DataLoss
// for a file that breaks the format of zip or npy, or whose bytes are not those that were written;
// Unimplemented for what ReadNpy refuses, other compression than deflate, and encryption. A name is
// never used as a path. Nothing is allocated that the file cannot hold, inflated or not.
absl::StatusOr<std::map<std::string, Tensor>> ReadNpz(absl::string_view path);

// Writes an uncompressed file that NumPy reads, atomically. Unimplemented for bfloat16, which NumPy
// does not know.
absl::Status WriteNpz(absl::string_view path, const std::map<std::string, Tensor>& arrays);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_NPZ_H_
