// SPDX-License-Identifier: Apache-2.0
#include "tools/checkpoint.h"

#include <cstdint>
#include <cstdio>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "framework/core/names.h"
#include "framework/core/status.h"
#include "framework/core/terminal.h"
#include "train/checkpoint/data.h"
#include "train/checkpoint/directory.h"

namespace mirrorflow {

absl::Status ListAndCheckCheckpoints(const std::vector<std::string>& args, ExitCode* code) {
  *code = kExitUsage;
  if (args.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("checkpoint: expected one directory, got ", args.size()));
  }
  *code = kExitBadInput;
  if (!std::filesystem::exists(args[0])) {
    return absl::NotFoundError(absl::StrCat(args[0], ": no such directory"));
  }
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, ListCheckpoints(args[0]));
  if (steps.empty()) std::printf("%s: no checkpoints\n", args[0].c_str());
  absl::Status damaged;
  for (const int64_t step : steps) {
    const std::string path = CheckpointPath(args[0], step);
    const absl::StatusOr<CheckpointData> data = ReadCheckpointData(path);
    if (!data.ok()) {
      std::printf("%s  DAMAGED\n", path.c_str());
      damaged.Update(data.status());
      continue;
    }
    const CheckpointManifest& m = data->manifest;
    std::printf("%s  ok  epoch=%lld batch=%lld tensors=%zu bytes=%llu workers=%d replicas=%d %s\n",
                path.c_str(), static_cast<long long>(m.epoch), static_cast<long long>(m.batch),
                m.variables.tensors.size(),
                static_cast<unsigned long long>(m.variables.bytes + m.state_tensors.bytes),
                m.num_workers, m.num_replicas, ForTerminal(m.time).c_str());
    for (const std::string& name : NonFiniteTensors(data->variables)) {
      std::printf("  not finite: %s\n", Printable(name).c_str());
    }
  }
  return damaged;
}

}  // namespace mirrorflow
