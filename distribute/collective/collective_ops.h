// SPDX-License-Identifier: Apache-2.0
//
// The nodes that the passes of this folder put into a graph, as ops: collectives, and the slicing
// of a replicated value into shares. Their one-replica meaning is the identity.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_COLLECTIVE_OPS_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_COLLECTIVE_OPS_H_

#include "framework/graph/op_registry.h"
#include "framework/graph/scope.h"
#include "framework/runtime/kernel_registry.h"

namespace mirrorflow {

// AllReduce     N values -> N values, each reduced over the ranks; attributes `reduction`,
// `bucket`. AllGather     the shares of dimension 0 -> the whole; attributes `axis`, `factor`.
// ShardSlice    a replicated value -> this replica's share; attributes `axis`, `dim`, `factor`.
inline constexpr char kAllReduce[] = "AllReduce";
inline constexpr char kAllGather[] = "AllGather";
inline constexpr char kShardSlice[] = "ShardSlice";

void RegisterCollectiveOps(OpRegistry& ops);
// ShardSlice has a kernel; collectives are instructions of the plan.
void RegisterCollectiveKernelsCpu(KernelRegistry& kernels);
// A registry of just these ops.
const OpRegistry& CollectiveOps();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_COLLECTIVE_OPS_H_
