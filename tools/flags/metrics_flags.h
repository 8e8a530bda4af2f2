// SPDX-License-Identifier: Apache-2.0
//
// Flags of training programs that serve metrics.
#ifndef MIRRORFLOW_TOOLS_FLAGS_METRICS_FLAGS_H_
#define MIRRORFLOW_TOOLS_FLAGS_METRICS_FLAGS_H_

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "distribute/cluster/cluster_resolver.h"
#include "train/trainer/metrics_server.h"

namespace mirrorflow {

// Serves the metrics of this process, which is a worker if there is a `cluster`, at --metrics.
// Returns null without the flag. Call it before the process joins the cluster, so that probes see
// it wait.
absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsOfFlags(
    const std::optional<Cluster>& cluster);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_FLAGS_METRICS_FLAGS_H_
