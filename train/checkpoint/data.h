// SPDX-License-Identifier: Apache-2.0
//
// The contents of one checkpoint: the manifest and the variables, as a safetensors file.
#ifndef MIRRORFLOW_TRAIN_CHECKPOINT_DATA_H_
#define MIRRORFLOW_TRAIN_CHECKPOINT_DATA_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "train/checkpoint/manifest.h"
#include "train/safetensors/safetensors.h"

namespace mirrorflow {

// Writes both files to the directory `path`, the manifest last, and makes them durable. Fills in
// what the manifest says of the data.
absl::Status WriteCheckpointData(const std::string& path, const Safetensors& contents,
                                 CheckpointManifest manifest);

struct CheckpointData {
  CheckpointManifest manifest;
  Safetensors contents;
};

// Reads and checks all of the checkpoint `path`. DataLoss, naming the file and the tensor, if a
// byte of it is not as it was written. Opens no file outside of `path`.
absl::StatusOr<CheckpointData> ReadCheckpointData(const std::string& path);

// The names of the tensors that have an infinity or NaN, sorted.
std::vector<std::string> NonFiniteTensors(const Safetensors& contents);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_CHECKPOINT_DATA_H_
