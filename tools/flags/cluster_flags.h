// SPDX-License-Identifier: Apache-2.0
//
// Flags of programs that can run as one worker or as several.
#ifndef MIRRORFLOW_TOOLS_FLAGS_CLUSTER_FLAGS_H_
#define MIRRORFLOW_TOOLS_FLAGS_CLUSTER_FLAGS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "distribute/strategy/strategy.h"
#include "tools/flags/command_line.h"

namespace mirrorflow {

// Returns the strategy that --strategy and the environment ask for, with `options` for the replicas
// of this worker, whose devices --devices and --replicas name. Prints the source of the cluster if
// there are several workers. On an error, `*code` is the exit code.
absl::StatusOr<std::unique_ptr<Strategy>> StrategyOfFlags(MirroredStrategy::Options options,
                                                          ExitCode* code);

// Returns the path with the number of the worker in place of `{worker}`; empty if this worker does
// not write the file, because only worker 0 writes a file that is common to all.
std::string PathOfWorker(const std::string& path, const Strategy& strategy);

// Returns kExitCluster for an error of a cluster of several workers that one of them has caused, or
// else `code`.
ExitCode ExitCodeOf(const absl::Status& status, ExitCode code);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_FLAGS_CLUSTER_FLAGS_H_
