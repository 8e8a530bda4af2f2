// SPDX-License-Identifier: Apache-2.0
//
// Flags for programs that can run as one worker or as several workers.
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

// Returns the cluster that --strategy, --cluster_spec and the environment describe, or nullopt if
// this process runs alone. Prints warnings, and the source that described the cluster.
absl::StatusOr<std::optional<Cluster>> ClusterOfFlags();

// Joins the cluster as the other flags specify. `options` apply to this worker's replicas;
// --devices and --replicas select their devices. On error, `*code` is the exit code.
absl::StatusOr<std::unique_ptr<Strategy>> StrategyOfCluster(Cluster cluster,
                                                            MirroredStrategy::Options options,
                                                            ExitCode* code);

// Returns StrategyOfCluster(), or a MirroredStrategy if `cluster` is nullopt.
absl::StatusOr<std::unique_ptr<Strategy>> StrategyOfFlags(std::optional<Cluster> cluster,
                                                          MirroredStrategy::Options options,
                                                          ExitCode* code);

// Returns how the process connects to the coordination service, or serves it, according to the
// flags. The data exchange options keep their defaults.
absl::StatusOr<JoinOptions> JoinOptionsOfFlags();

// Returns `path` with `{worker}` replaced by the worker's index. Without `{worker}`, all workers
// share one file, which worker 0 writes; the other workers get an empty path.
std::string PathOfWorker(const std::string& path, const Strategy& strategy);

// Ends the session's trace and writes it to one file for all workers or, if `path` contains
// {worker}, to one file per worker. All workers must call it.
absl::Status WriteTraceOfWorkers(Session& session, const TraceWriter& trace,
                                 const std::string& path, const Strategy& strategy);

// Ends a worker's process if a destructor hangs during cleanup. Does nothing if there are no other
// workers.
//
//   CleanupWatchdog watchdog;
//   …
//   const absl::Cleanup cleanup = [&] { watchdog.Start(strategy, failure); };  // declared last
class CleanupWatchdog {
 public:
  // Gives the process twice --heartbeat_timeout to exit. Then ends it immediately, with exit code
  // kExitCluster if the cluster has failed with `failure`, or kExitInternal if `failure` is OK.
  void Start(const Strategy& strategy, const absl::Status& failure);
  // Cancels the watchdog, for a process that continues after all.
  void Stop();

 private:
  struct Watch;

  std::shared_ptr<Watch> watch_;  // shared with a thread that can outlive this object
};

// Returns kExitCluster if another worker of the strategy caused the error, or if the error arose
// while waiting for another worker: in both cases, this worker's input is not at fault. Otherwise
// returns `code`.
ExitCode ExitCodeOf(const absl::Status& status, const Strategy& strategy, ExitCode code);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_FLAGS_CLUSTER_FLAGS_H_
