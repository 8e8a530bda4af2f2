// SPDX-License-Identifier: Apache-2.0
//
// Notices a program that was started as one of several workers, but whose strategy leaves the
// others out, so that each worker trains a model of its own.
#ifndef MIRRORFLOW_DISTRIBUTE_STRATEGY_IGNORED_WORKERS_H_
#define MIRRORFLOW_DISTRIBUTE_STRATEGY_IGNORED_WORKERS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "distribute/cluster/cluster_resolver.h"

namespace mirrorflow {

// The warning that a process with this environment prints about `strategy`, which runs on it alone.
// Empty if it was started alone, by itself or by MIRRORFLOW_CLUSTER=none, and for all workers but
// the first, so that a job prints one warning. Where the environment only hints at other workers,
// it is the warnings of ClusterResolver, for every worker.
std::string WarningOfIgnoredWorkers(const Environment& environment, absl::string_view strategy);

// Prints that warning, at most once in a process, and not after JoinWorkersOfEnvironment or after
// PrintWarnings has printed the warnings of a cluster of one worker.
void WarnOfIgnoredWorkers(absl::string_view strategy);

// Prints Cluster::warnings.
void PrintWarnings(const Cluster& cluster);

// A strategy of this process connects the workers: another one that runs beside it may be local.
void JoinWorkersOfEnvironment();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_STRATEGY_IGNORED_WORKERS_H_
