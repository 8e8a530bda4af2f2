// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_CLUSTER_STATUS_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_CLUSTER_STATUS_H_

#include <string>
#include <vector>

#include "distribute/cluster/coordination/coordination.pb.h"

namespace mirrorflow {

// Counts and names the workers by activity, in one line of bounded length:
// `4 workers: 2 in a step (0, 3), 1 waiting for others (1), 1 missing (2)`.
std::string SummaryOf(const coordination::ClusterStatus& status);

// Describes each worker in one line.
std::vector<std::string> LinesOf(const coordination::ClusterStatus& status);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_CLUSTER_STATUS_H_
