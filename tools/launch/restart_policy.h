// SPDX-License-Identifier: Apache-2.0
//
// RestartPolicy: decides whether and when a job restarts after an attempt, which hosts it then
// uses, and whether and when a lost worker restarts alone.
//
// A job restarts at most --max_restarts times without progress. Progress is a checkpoint of a later
// step than all earlier checkpoints. It resets the count, so neither a flaky host nor a month of
// preemptions uses up the restarts. It also resets the failure counts of hosts, so rare failures
// over a month do not exclude a good host. The pause before a restart doubles until the job makes
// progress, so a job that cannot run does not keep its hosts busy. It is randomized, so many jobs
// do not restart at once.
#ifndef MIRRORFLOW_TOOLS_LAUNCH_RESTART_POLICY_H_
#define MIRRORFLOW_TOOLS_LAUNCH_RESTART_POLICY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>

#include "absl/time/time.h"

namespace mirrorflow {

class RestartPolicy {
 public:
  struct Options {
    int max_restarts = 0;
    // How often a host's workers may be the first to fail without progress before it is excluded.
    // If 0, hosts are never excluded.
    int exclude_after = 0;
    absl::Duration first_pause = absl::Seconds(1);
    absl::Duration longest_pause = absl::Seconds(60);
  };
  // How an attempt ended.
  struct Ending {
    int exit_code = 0;
    int64_t saved_step = 0;  // step of the newest checkpoint that its workers saved, or 0
    std::string host;        // host of the worker that failed first; empty if unknown
    // Whether only this worker has ended, so that only this worker would restart.
    bool is_alone = false;
    // Whether the worker was lost together with the previous one, whose restart already counts.
    bool is_counted = false;
  };

  explicit RestartPolicy(const Options& options) : options_(options) {}

  // Returns how long to wait before the restart, or nullopt if it must not happen. The other
  // workers wait for a lost worker, so its first restart since the last progress is immediate.
  std::optional<absl::Duration> PauseAfter(const Ending& ending);

  // Describes the last restart: `2 of at most 5 since step 400 was saved`.
  std::string Text() const;
  // Returns the hosts that are excluded.
  const std::set<std::string>& excluded() const { return excluded_; }
  // Ends all exclusions. Called when too few other hosts are left.
  void IncludeAll();

 private:
  const Options options_;
  std::mt19937 random_{std::random_device()()};
  int attempts_ = 0;  // since the last progress
  absl::Duration last_pause_;
  int64_t saved_step_ = 0;                       // newest saved step of all attempts
  std::map<std::string, int> failures_by_host_;  // since the last progress
  std::set<std::string> excluded_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_LAUNCH_RESTART_POLICY_H_
