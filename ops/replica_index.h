// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_REPLICA_INDEX_H_
#define MIRRORFLOW_OPS_REPLICA_INDEX_H_

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

// ReplicaIndex: the index of this replica among all replicas in sync, an int32 scalar; 0 on one
// device (TensorFlow's replica_id_in_sync_group).
// Sharding: per-replica, like every value computed from it. Fetch such a value with
//           Step::PerReplica, and do not assign it to a mirrored variable, which must be equal on
//           all replicas. This op is an exception to the rule that a strategy never changes what a
//           graph computes.
// Gradient: none; the output is an integer.
Output ReplicaIndex(const Scope& scope);

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_REPLICA_INDEX_H_
