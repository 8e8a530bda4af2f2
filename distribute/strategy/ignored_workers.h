// SPDX-License-Identifier: Apache-2.0
//
// Detects a program that was started as one of several workers but uses a strategy that ignores the
// others, so each worker trains its own model.
#ifndef MIRRORFLOW_DISTRIBUTE_STRATEGY_IGNORED_WORKERS_H_
#define MIRRORFLOW_DISTRIBUTE_STRATEGY_IGNORED_WORKERS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "distribute/cluster/cluster_resolver.h"

namespace mirrorflow {

// Returns the warning that a process with this environment prints about `strategy`, which runs on
// this process alone. Empty if the process was started alone or MIRRORFLOW_CLUSTER is `none`. Also
// empty for all workers but the first, so a job prints one warning. If the environment only hints
// at other workers, returns ClusterResolver's warnings, for every worker.
std::string WarningOfIgnoredWorkers(const Environment& environment, absl::string_view strategy);

// Prints that warning at most once per process, and not after JoinWorkersOfEnvironment or after
// PrintWarnings has printed the warnings of a cluster of one worker.
void WarnOfIgnoredWorkers(absl::string_view strategy);

// Prints Cluster::warnings.
void PrintWarnings(const Cluster& cluster);

// Suppresses the warning, because a strategy of this process connects the workers; other strategies
// in the process may be local.
void JoinWorkersOfEnvironment();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_STRATEGY_IGNORED_WORKERS_H_
