// SPDX-License-Identifier: Apache-2.0
//
// The command `mirrorflow launch` and the flags that name hosts.
#ifndef MIRRORFLOW_TOOLS_LAUNCH_LAUNCH_H_
#define MIRRORFLOW_TOOLS_LAUNCH_LAUNCH_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tools/flags/command_line.h"
#include "tools/launch/placement.h"
#include "tools/launch/restart_policy.h"

namespace mirrorflow {

struct LaunchOptions {
  std::vector<Placement> workers;  // the most workers that the job can have
  // Whether the job starts and restarts with the workers of the hosts that answer, if there are at
  // least `min_workers` of them. Other jobs need all workers.
  bool is_elastic = false;
  int min_workers = 1;
  std::vector<std::string> command;  // each worker's command
  std::string directory;             // where workers run
  // The words of a command that runs another command on a host; `{host}` stands for its name.
  std::vector<std::string> remote_shell;
  // Variables to send to other hosts even if their names would exclude them.
  std::set<std::string> forwarded_variables;
  std::vector<int> show;
  std::string log_dir;
  absl::Duration grace = absl::Seconds(30);
  absl::Duration start_timeout = absl::Minutes(5);
  RestartPolicy::Options restarts;
  // How long the other workers wait for a lost worker, which restarts alone. If 0, all workers end.
  absl::Duration rejoin_timeout;
  bool one_gpu_per_process = false;
};

// Exit codes of a job other than those of its workers. Launchers and shells commonly use them.
inline constexpr int kExitStartTimeout = 124;
inline constexpr int kExitNotStarted = 127;

// Runs `command` as several workers, as the flags specify. Sets `*code` to the exit code, whether
// or not it returns an error.
absl::Status Launch(const std::vector<std::string>& command, ExitCode* code);

// Returns the hosts that --hosts and --rsh name.
absl::StatusOr<WorkerHosts> HostsFromFlags();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_LAUNCH_LAUNCH_H_
