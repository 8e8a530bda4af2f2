// SPDX-License-Identifier: Apache-2.0
//
// Starts the workers of a job, each under a supervisor, and waits for their end.
#ifndef MIRRORFLOW_TOOLS_LAUNCH_LAUNCHER_H_
#define MIRRORFLOW_TOOLS_LAUNCH_LAUNCHER_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tools/launch/placement.h"
#include "tools/launch/restart_policy.h"

namespace mirrorflow {

struct LaunchOptions {
  std::vector<Placement> workers;  // as many as the job may have
  // An elastic job starts, and starts again, with the workers of the hosts that answer, if there
  // are at least `min_workers`. Other jobs need all workers.
  bool is_elastic = false;
  int min_workers = 1;
  std::vector<std::string> command;  // of each worker
  std::string directory;             // where workers run
  // Runs a command on a host: words, with `{host}` in place of its name.
  std::vector<std::string> remote_shell;
  // Variables to send to other hosts although their names would keep them here.
  std::set<std::string> forwarded_variables;
  std::vector<int> show;
  std::string log_dir;
  absl::Duration grace = absl::Seconds(30);
  absl::Duration start_timeout = absl::Minutes(5);
  RestartPolicy::Options restarts;
  bool one_gpu_per_process = false;
};

// Exit codes of a job, besides those of its workers: they are common to launchers and shells.
inline constexpr int kExitStartTimeout = 124;
inline constexpr int kExitNotStarted = 127;

// Returns the exit code: 0 if all workers succeed, that of the worker that failed first (128 + N
// after signal N), or kExitStartTimeout. After SIGTERM to the launcher, kExitPreempted if that has
// ended the workers and none has failed by itself; otherwise, 128 + N after signal N to the
// launcher. An error if the job could not be started, or if it succeeded but not all of its output
// could be written.
//
// After a failure, starts all workers again as RestartPolicy says, unless the exit code says that
// they would fail again (usage, input, resources, numbers) or that the user has interrupted them.
absl::StatusOr<int> RunJob(const LaunchOptions& options);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_LAUNCH_LAUNCHER_H_
