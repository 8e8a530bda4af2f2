// SPDX-License-Identifier: Apache-2.0
//
// Flags for training programs that serve metrics.
#ifndef MIRRORFLOW_TOOLS_FLAGS_METRICS_FLAGS_H_
#define MIRRORFLOW_TOOLS_FLAGS_METRICS_FLAGS_H_

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "distribute/cluster/cluster_resolver.h"
#include "train/trainer/metrics_server.h"

namespace mirrorflow {

// Serves this process's metrics at --metrics, or returns null without the flag. If `cluster` is
// set, the process is one of its workers. Call it before the process joins the cluster, so that
// probes can see that it is waiting.
absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsOfFlags(
    const std::optional<Cluster>& cluster);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_FLAGS_METRICS_FLAGS_H_
