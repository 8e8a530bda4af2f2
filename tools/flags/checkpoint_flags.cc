// SPDX-License-Identifier: Apache-2.0
#include "tools/flags/checkpoint_flags.h"

#include <utility>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/time/time.h"
#include "framework/core/status.h"

ABSL_DECLARE_FLAG(absl::Duration, prepare_timeout);
ABSL_FLAG(std::string, checkpoint_dir, "",
          "checkpoint directory, which training also resumes from; used only by worker 0");
ABSL_FLAG(int64_t, checkpoint_every, 500,
          "steps between checkpoints; 0: save only when training ends");
ABSL_FLAG(int, keep, 2, "how many of the newest checkpoints to keep, at least 2");
ABSL_FLAG(std::string, resume, "auto",
          "auto (from the newest checkpoint, or from scratch if there is none), latest_valid (from "
          "the newest undamaged checkpoint) or never");
ABSL_FLAG(absl::Duration, checkpoint_lock_timeout,
          mirrorflow::CheckpointManager::Options().lock_timeout,
          "how long to wait for another job that uses --checkpoint_dir to end; if that job's "
          "machine lost power, this job can take over the directory after 30 s");
ABSL_FLAG(int, max_failed_saves, 3, "stop training after this many consecutive failed saves");

namespace mirrorflow {
namespace {

absl::StatusOr<Resume> ResumeOfFlag() {
  const std::string text = absl::GetFlag(FLAGS_resume);
  MF_RETURN_IF_ERROR(CheckChoice("resume", text, {"auto", "latest_valid", "never"}));
  if (text == "never") return Resume::kNever;
  return text == "auto" ? Resume::kAuto : Resume::kLatestValid;
}

}  // namespace

std::string CheckpointDirOfFlags() { return absl::GetFlag(FLAGS_checkpoint_dir); }

absl::Status CheckCheckpointFlags() {
  MF_RETURN_IF_ERROR(ResumeOfFlag().status());
  MF_RETURN_IF_ERROR(CheckFlagRange("checkpoint_every", absl::GetFlag(FLAGS_checkpoint_every), 0));
  MF_RETURN_IF_ERROR(CheckFlagRange("keep", absl::GetFlag(FLAGS_keep), 2));
  return CheckFlagRange("max_failed_saves", absl::GetFlag(FLAGS_max_failed_saves), 1);
}

absl::StatusOr<Checkpoints> CheckpointsOfFlags(Session& session,
                                               std::map<std::string, std::string> settings,
                                               ExitCode* code) {
  Checkpoints checkpoints;
  const std::string directory = CheckpointDirOfFlags();
  if (directory.empty()) return checkpoints;
  *code = kExitUsage;
  MF_ASSIGN_OR_RETURN(const Resume resume, ResumeOfFlag());
  auto manager = CheckpointManager::Create(
      session, {.directory = directory,
                .keep = absl::GetFlag(FLAGS_keep),
                .resume = resume,
                .max_failed_saves = absl::GetFlag(FLAGS_max_failed_saves),
                .settings = std::move(settings),
                .lock_timeout = absl::GetFlag(FLAGS_checkpoint_lock_timeout),
                .timeout = absl::GetFlag(FLAGS_prepare_timeout)});
  // DeadlineExceeded: another job still uses the directory.
  if (absl::IsDeadlineExceeded(manager.status())) *code = kExitCluster;
  MF_ASSIGN_OR_RETURN(checkpoints.manager, Annotate(std::move(manager), "--checkpoint_dir"));
  const absl::StatusOr<TrainingPosition> start = checkpoints.manager->Restore();
  // AlreadyExists: --resume=never, but there are checkpoints.
  *code = absl::IsAlreadyExists(start.status()) ? kExitUsage : kExitBadInput;
  MF_RETURN_IF_ERROR(start.status());
  checkpoints.start = *start;
  checkpoints.every = absl::GetFlag(FLAGS_checkpoint_every);
  return checkpoints;
}

}  // namespace mirrorflow
