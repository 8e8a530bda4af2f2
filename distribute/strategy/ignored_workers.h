// SPDX-License-Identifier: Apache-2.0
//
// Detects programs that were started as one of several workers, but use a strategy that ignores the
// other workers. Each worker of such a job trains its own model.
#ifndef MIRRORFLOW_DISTRIBUTE_STRATEGY_IGNORED_WORKERS_H_
#define MIRRORFLOW_DISTRIBUTE_STRATEGY_IGNORED_WORKERS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "distribute/cluster/cluster_resolver.h"

namespace mirrorflow {

// Returns the warning that a process with this environment prints about `strategy`, which ignores
// other workers. Returns an empty string if the process was started alone, if MIRRORFLOW_CLUSTER is
// `none`, and for all workers but the first, so a job prints one warning. If the environment only
// hints at other workers, returns ClusterResolver's warnings, for every worker.
std::string WarningOfIgnoredWorkers(const Environment& environment, absl::string_view strategy);

// Prints that warning at most once per process. Prints nothing after JoinWorkersOfEnvironment, or
// after PrintWarnings has printed the warnings of a one-worker cluster.
void WarnOfIgnoredWorkers(absl::string_view strategy);

// Prints Cluster::warnings.
void PrintWarnings(const Cluster& cluster);

// Suppresses the warning, even for strategies that ignore other workers, because another strategy
// in this process connects the workers.
void JoinWorkersOfEnvironment();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_STRATEGY_IGNORED_WORKERS_H_
