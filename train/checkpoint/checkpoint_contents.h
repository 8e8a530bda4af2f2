// SPDX-License-Identifier: Apache-2.0
//
// The contents of one checkpoint: the manifest, the variables and, if there are any, the tensors of
// the training state, each as a safetensors file.
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

// Writes the files to the directory `path`, the manifest last, and makes them durable. Fills in
// what the manifest says about the other files.
absl::Status WriteCheckpointContents(const std::string& path, const CheckpointContents& data);

// Reads and checks all of the checkpoint `path`. DataLoss, naming the file and the tensor, if a
// byte of it is not as it was written. Opens no file outside of `path`.
absl::StatusOr<CheckpointContents> ReadCheckpointContents(const std::string& path);

// Whether the tensor has neither an infinity nor a NaN. True for integers.
bool IsFinite(const Tensor& tensor);

// The names of the tensors that have an infinity or NaN, sorted.
std::vector<std::string> NonFiniteTensors(const Safetensors& contents);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_CHECKPOINT_CHECKPOINT_CONTENTS_H_
