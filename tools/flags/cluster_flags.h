// SPDX-License-Identifier: Apache-2.0
//
// Flags of programs that can run as one worker or as several.
#ifndef MIRRORFLOW_TOOLS_FLAGS_CLUSTER_FLAGS_H_
#define MIRRORFLOW_TOOLS_FLAGS_CLUSTER_FLAGS_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "distribute/cluster/cluster_resolver.h"
#include "distribute/cluster/join_options.h"
#include "distribute/strategy/strategy.h"
#include "tools/flags/command_line.h"

namespace mirrorflow {

// Returns the cluster that --strategy, --cluster_spec and the environment describe; none if this
// process runs alone. Prints warnings, and which source described the cluster.
absl::StatusOr<std::optional<Cluster>> ClusterOfFlags();

// Joins the cluster as the other flags say. `options` apply to this worker's replicas, whose
// devices --devices and --replicas select. On error, `*code` is the exit code.
absl::StatusOr<std::unique_ptr<Strategy>> StrategyOfCluster(Cluster cluster,
                                                            MirroredStrategy::Options options,
                                                            ExitCode* code);

// Returns StrategyOfCluster(), or a MirroredStrategy if there is no cluster.
absl::StatusOr<std::unique_ptr<Strategy>> StrategyOfFlags(std::optional<Cluster> cluster,
                                                          MirroredStrategy::Options options,
                                                          ExitCode* code);

// Returns how a process connects to the coordination service, or serves it, as the flags say. The
// data exchange options keep their defaults.
absl::StatusOr<JoinOptions> JoinOptionsOfFlags();

// Returns `path` with `{worker}` replaced by the worker's number. Without `{worker}`, all workers
// share one file, which worker 0 writes; returns an empty path on the others.
std::string PathOfWorker(const std::string& path, const Strategy& strategy);

// Ends the session's trace and writes it: one file for all workers or, if `path` contains {worker},
// one for each. All workers must call it.
absl::Status WriteTraceOfWorkers(Session& session, const TraceWriter& trace,
                                 const std::string& path, const Strategy& strategy);

// Ends the process of a worker if a destructor hangs during cleanup. Does nothing without other
// workers.
//
//   CleanupWatchdog watchdog;
//   …
//   const absl::Cleanup cleanup = [&] { watchdog.Start(strategy, failure); };  // declared last
class CleanupWatchdog {
 public:
  // Gives the process twice --heartbeat_timeout to exit, then ends it immediately: with
  // kExitCluster after `failure` of the cluster, or with kExitInternal if `failure` is OK.
  void Start(const Strategy& strategy, const absl::Status& failure);
  // Cancels the watchdog, for a process that continues after all.
  void Stop();

 private:
  struct Watch;

  std::shared_ptr<Watch> watch_;  // shared with a thread that may outlive this
};

// Returns kExitCluster for an error that another worker of the strategy caused, or that arose while
// waiting for one, because no input is wrong then. Otherwise returns `code`.
ExitCode ExitCodeOf(const absl::Status& status, const Strategy& strategy, ExitCode code);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_FLAGS_CLUSTER_FLAGS_H_
