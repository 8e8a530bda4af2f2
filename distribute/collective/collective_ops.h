// SPDX-License-Identifier: Apache-2.0
//
// Ops that passes insert into a graph (distribute/passes): collectives, which a user's graph can
// also contain (ops/collectives.h), and ops that turn a replicated value into shards or partial
// sums. On one replica, each of these ops is the identity.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_COLLECTIVE_OPS_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_COLLECTIVE_OPS_H_

#include "framework/graph/op_registry.h"
#include "framework/graph/scope.h"
#include "framework/runtime/kernel_registry.h"
#include "ops/collectives.h"

namespace mirrorflow {

// ShardSlice        a replicated value -> this replica's shard; `axis`, `dim`, `factor`
// FirstReplicaOnly  a replicated value -> itself on replica 0, zeros elsewhere
inline constexpr char kShardSlice[] = "ShardSlice";
inline constexpr char kFirstReplicaOnly[] = "FirstReplicaOnly";

void RegisterCollectiveOps(OpRegistry& ops);
// Registers the kernels of ShardSlice and FirstReplicaOnly.
void RegisterCollectiveKernelsCpu(KernelRegistry& kernels);
// Returns a registry that holds only these ops and the collectives.
const OpRegistry& CollectiveOps();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_COLLECTIVE_OPS_H_
