// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "framework/core/names.h"
#include "framework/core/status.h"
#include "framework/core/terminal.h"
#include "tools/cli/commands.h"
#include "train/checkpoint/checkpoint_contents.h"
#include "train/checkpoint/directory.h"

namespace mirrorflow {

absl::Status ListAndCheckCheckpoints(const std::vector<std::string>& args, ExitCode* code) {
  *code = kExitUsage;
  MF_RETURN_IF_ERROR(CheckArguments("checkpoint", args, 1, 1, "one directory"));
  *code = kExitBadInput;
  if (!std::filesystem::exists(args[0])) {
    return absl::NotFoundError(absl::StrCat(args[0], ": no such directory"));
  }
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, ListCheckpoints(args[0]));
  if (steps.empty()) PrintLine(absl::StrCat(args[0], ": no checkpoints"));
  absl::Status damaged;
  for (const int64_t step : steps) {
    const std::string path = CheckpointPath(args[0], step);
    const absl::StatusOr<CheckpointContents> data = ReadCheckpointContents(path);
    if (!data.ok()) {
      PrintLine(absl::StrCat(path, "  DAMAGED"));
      damaged.Update(data.status());
      continue;
    }
    const CheckpointManifest& m = data->manifest;
    PrintLine(absl::StrCat(path, "  ok  epoch=", m.epoch, " batch=", m.batch,
                           " tensors=", m.variables.tensors.size(),
                           " bytes=", m.variables.bytes + m.state_tensors.bytes,
                           " workers=", m.num_workers, " replicas=", m.num_replicas, " ", m.time));
    for (const std::string& name : NonFiniteTensors(data->variables)) {
      PrintLine(absl::StrCat("  not finite: ", Printable(name)));
    }
  }
  return damaged;
}

}  // namespace mirrorflow
