// SPDX-License-Identifier: Apache-2.0
//
// A checkpoint's manifest: what the checkpoint contains, and how to verify that it is complete. It
// is JSON:
//
//   {"crc32c":"1f2e3d4c","manifest":{"format":"mirrorflow checkpoint","version":2,…}}
//
// The checksum covers the bytes between `"manifest":` and the last brace.
#ifndef MIRRORFLOW_TRAIN_CHECKPOINT_MANIFEST_H_
#define MIRRORFLOW_TRAIN_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/dtype.h"
#include "framework/core/shape.h"

namespace mirrorflow {

// A safetensors file in the checkpoint's directory.
struct CheckpointFile {
  struct TensorInfo {
    DataType dtype = DT_INVALID;
    Shape shape;
    uint32_t crc32c = 0;  // of the tensor's bytes

    friend bool operator==(const TensorInfo&, const TensorInfo&) = default;
  };

  std::string name;           // empty: no such file
  uint64_t bytes = 0;         // size of the file
  uint64_t header_bytes = 0;  // size of the part before the tensors
  uint32_t header_crc32c = 0;
  std::map<std::string, TensorInfo> tensors;

  friend bool operator==(const CheckpointFile&, const CheckpointFile&) = default;
};

struct CheckpointManifest {
  int64_t step = 0;           // training steps that have run
  int64_t epoch = 0;          // counts from 0
  int64_t batch = 0;          // batches of that epoch that have been used
  uint64_t session_step = 0;  // Session::step(), which random ops depend on
  uint64_t reading_step = 0;  // Session::reading_step()
  uint64_t seed = 0;          // the strategy's seed
  int num_workers = 1;
  int num_replicas = 1;  // of all workers
  std::string time;      // when it was written, in RFC 3339; only for information
  // Settings that must be equal when training resumes: CheckpointManager::Options::settings.
  std::map<std::string, std::string> settings;
  // StateDict::values() of the trainer and its callbacks.
  std::map<std::string, std::string> state;

  CheckpointFile variables;
  // StateDict::tensors(), and the replicas' parts of variables synchronised on read. Most
  // checkpoints have neither.
  CheckpointFile state_tensors;

  friend bool operator==(const CheckpointManifest&, const CheckpointManifest&) = default;
};

inline constexpr uint64_t kMaxManifestBytes = uint64_t{64} << 20;

std::string FormatManifest(const CheckpointManifest& manifest);

// Parses a manifest. Returns DataLoss, `field: what; expected …, got …`, if the text is damaged or
// not a manifest. File names in the result refer to files in the same directory.
absl::StatusOr<CheckpointManifest> ParseManifest(absl::string_view text);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_CHECKPOINT_MANIFEST_H_
