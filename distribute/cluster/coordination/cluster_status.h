// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_CLUSTER_STATUS_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_CLUSTER_STATUS_H_

#include <string>
#include <vector>

#include "distribute/cluster/coordination/coordination.pb.h"

namespace mirrorflow {

// Returns how many workers, and which, are in each state, in one line of bounded length:
// `4 workers: 2 in a step (0, 3), 1 waiting for others (1), 1 missing (2)`.
std::string SummaryOf(const coordination::ClusterStatus& status);

// Returns one line for each worker, which describes its state.
std::vector<std::string> LinesOf(const coordination::ClusterStatus& status);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_CLUSTER_STATUS_H_
