// SPDX-License-Identifier: Apache-2.0
//
// The contents of one checkpoint: the manifest, the variables and, if there are any, the tensors of
// the training state. Variables and state tensors are in safetensors files.
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

// Writes the files to the directory `path`, the manifest last, and makes them durable. Describes
// the other files in the written manifest; ignores what `data.manifest` says about them.
absl::Status WriteCheckpointContents(const std::string& path, const CheckpointContents& data);

// Reads and verifies the whole checkpoint `path`. Returns DataLoss, naming the file and the tensor,
// if any byte differs from what was written. Opens no files outside `path`.
absl::StatusOr<CheckpointContents> ReadCheckpointContents(const std::string& path);

// Returns whether the tensor has neither infinities nor NaNs. True for integers.
bool IsFinite(const Tensor& tensor);

// Returns the sorted names of the tensors that contain an infinity or a NaN.
std::vector<std::string> NonFiniteTensors(const Safetensors& contents);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_CHECKPOINT_CHECKPOINT_CONTENTS_H_
