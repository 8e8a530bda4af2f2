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

// The cluster that --strategy, --cluster_spec and the environment describe; none if this process
// runs alone. Prints warnings, and the source of the cluster.
absl::StatusOr<std::optional<Cluster>> ClusterOfFlags();

// Joins the cluster as the other flags say, with `options` for the replicas of this worker, whose
// devices --devices and --replicas name. On an error, `*code` is the exit code.
absl::StatusOr<std::unique_ptr<Strategy>> StrategyOfCluster(Cluster cluster,
                                                            MirroredStrategy::Options options,
                                                            ExitCode* code);

// Returns StrategyOfCluster, or a MirroredStrategy without a cluster.
absl::StatusOr<std::unique_ptr<Strategy>> StrategyOfFlags(std::optional<Cluster> cluster,
                                                          MirroredStrategy::Options options,
                                                          ExitCode* code);

// Returns how a process reaches the coordination service, or serves it, as the flags say. The
// options of the exchange of data are defaults.
absl::StatusOr<JoinOptions> JoinOptionsOfFlags();

// Returns the path with the number of the worker in place of `{worker}`; empty if this worker does
// not write the file, because only worker 0 writes a file that is common to all.
std::string PathOfWorker(const std::string& path, const Strategy& strategy);

// Ends the trace of the session: writes one for all workers or, if `path` has {worker}, one for
// each. All workers must call it.
absl::Status WriteTraceOfWorkers(Session& session, const TraceWriter& trace,
                                 const std::string& path, const Strategy& strategy);

// Ends a process of several workers that hangs while it cleans up, because a destructor hangs.
//
//   CleanupWatchdog watchdog;
//   …
//   const absl::Cleanup cleanup = [&] { watchdog.Start(strategy, failure); };  // declared last
class CleanupWatchdog {
 public:
  // Gives the process twice --heartbeat_timeout to end; then ends it at once, with kExitCluster
  // after `failure` of the cluster, or else kExitInternal.
  void Start(const Strategy& strategy, const absl::Status& failure);
  // The process goes on instead of ending.
  void Stop();

 private:
  struct Watch;

  std::shared_ptr<Watch> watch_;  // shared with a thread that may outlive this
};

// Returns kExitCluster for an error that another worker of the strategy has caused, or that has to
// do with waiting for it: no input is wrong then. Otherwise `code`.
ExitCode ExitCodeOf(const absl::Status& status, const Strategy& strategy, ExitCode code);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_FLAGS_CLUSTER_FLAGS_H_
