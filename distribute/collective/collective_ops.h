// SPDX-License-Identifier: Apache-2.0
//
// Ops of the nodes that passes insert into a graph (distribute/passes): collectives, and ops that
// make shares or partial sums of a replicated value. On one replica each of them is the identity.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_COLLECTIVE_OPS_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_COLLECTIVE_OPS_H_

#include "framework/graph/op_registry.h"
#include "framework/graph/scope.h"
#include "framework/runtime/kernel_registry.h"

namespace mirrorflow {

// AllReduce         N values -> N values, each reduced over the ranks; `reduction`, `bucket`
// ReduceScatter     a value -> this rank's share of dimension 0 of its reduction over the ranks;
//                   `reduction`, `axis`, `factor`
// AllGather         the shares of dimension 0 -> the whole; `axis`, `factor`
// ShardSlice        a replicated value -> this replica's share; `axis`, `dim`, `factor`
// FirstReplicaOnly  a replicated value -> itself on replica 0, zeros elsewhere
inline constexpr char kAllReduce[] = "AllReduce";
inline constexpr char kReduceScatter[] = "ReduceScatter";
inline constexpr char kAllGather[] = "AllGather";
inline constexpr char kShardSlice[] = "ShardSlice";
inline constexpr char kFirstReplicaOnly[] = "FirstReplicaOnly";

void RegisterCollectiveOps(OpRegistry& ops);
// Registers the kernels of ShardSlice and FirstReplicaOnly. Collectives have no kernels, because
// they are instructions of the plan.
void RegisterCollectiveKernelsCpu(KernelRegistry& kernels);
// A registry of these ops only.
const OpRegistry& CollectiveOps();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_COLLECTIVE_OPS_H_
