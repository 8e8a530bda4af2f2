// SPDX-License-Identifier: Apache-2.0
//
// Flags for programs that train with checkpoints.
#ifndef MIRRORFLOW_TOOLS_FLAGS_CHECKPOINT_FLAGS_H_
#define MIRRORFLOW_TOOLS_FLAGS_CHECKPOINT_FLAGS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tools/flags/command_line.h"
#include "train/checkpoint/checkpoint_manager.h"

namespace mirrorflow {

// The manager of the checkpoints in --checkpoint_dir, and the position where training continues.
struct Checkpoints {
  std::unique_ptr<CheckpointManager> manager;  // null without --checkpoint_dir
  TrainingPosition start;
  int64_t every = 0;  // steps
};

// Returns the value of --checkpoint_dir.
std::string CheckpointDirOfFlags();

// Returns InvalidArgument, naming the flag, if a value is out of range.
absl::Status CheckCheckpointFlags();

// Opens --checkpoint_dir and restores the session as --resume specifies. `settings` becomes
// CheckpointManager::Options::settings. On error, `*code` is the exit code.
absl::StatusOr<Checkpoints> CheckpointsOfFlags(Session& session,
                                               std::map<std::string, std::string> settings,
                                               ExitCode* code);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_FLAGS_CHECKPOINT_FLAGS_H_
