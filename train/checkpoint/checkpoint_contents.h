// SPDX-License-Identifier: Apache-2.0
//
// The contents of one checkpoint: the manifest, the variables and, if it has any, the tensors of
// the training state. The last two are safetensors files.
#ifndef MIRRORFLOW_TRAIN_CHECKPOINT_CHECKPOINT_CONTENTS_H_
#define MIRRORFLOW_TRAIN_CHECKPOINT_CHECKPOINT_CONTENTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "train/checkpoint/manifest.h"
#include "train/safetensors/safetensors.h"

namespace mirrorflow {

struct CheckpointContents {
  CheckpointManifest manifest;
  Safetensors variables;
  Safetensors state_tensors;
};

// Writes the files to the directory `path`, the manifest last, and makes them durable. Fills in the
// manifest's fields about the other files.
absl::Status WriteCheckpointContents(const std::string& path, const CheckpointContents& data);

// Reads and verifies the whole checkpoint `path`. DataLoss, naming the file and the tensor, if any
// byte differs from what was written. Opens no files outside `path`.
absl::StatusOr<CheckpointContents> ReadCheckpointContents(const std::string& path);

// Whether the tensor has no infinity and no NaN. True for integers.
bool IsFinite(const Tensor& tensor);

// Returns the names of the tensors that contain an infinity or a NaN, sorted.
std::vector<std::string> NonFiniteTensors(const Safetensors& contents);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_CHECKPOINT_CHECKPOINT_CONTENTS_H_
