// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_SLURM_NODES_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_SLURM_NODES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mirrorflow {

// Expands a SLURM node list such as `n[001-003,7],m1` to the node names: n001 n002 n003 n7 m1. A
// name can have several pairs of brackets. Returns InvalidArgument for a malformed list, and for
// more than 65,536 nodes.
absl::StatusOr<std::vector<std::string>> ExpandNodeList(absl::string_view list);

// Returns the number of tasks on a node, from SLURM's list of tasks per node: `2(x3),1` means 2, 2,
// 2, 1. Returns nullopt for a malformed list, and for a node that is not in the list.
std::optional<int> TasksOfNode(absl::string_view tasks_per_node, int node);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_SLURM_NODES_H_
