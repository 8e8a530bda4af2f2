// SPDX-License-Identifier: Apache-2.0
//
// Explicit communication. A graph is a program for one device and the global batch, and the
// compiler inserts the collectives that it needs. Use these ops to choose what to communicate and
// where: for example half-precision values, or only a low-rank factor of a gradient
// (train/optimizers/communication_hooks.h). On a single replica, each op returns its operand,
// except NumReplicas.
//
//   Output part = ops::LocalPart(scope, gradient);           // this replica's part of a sum
//   Output narrow = ops::Cast(scope, part, DT_BFLOAT16);     // any op can process it, locally
//   Output reduced = ops::AllReduce(scope, narrow);          // equal on all replicas
#ifndef MIRRORFLOW_OPS_COLLECTIVES_H_
#define MIRRORFLOW_OPS_COLLECTIVES_H_

#include "absl/strings/string_view.h"
#include "framework/graph/scope.h"
#include "framework/graph/sharding.h"

namespace mirrorflow {

// AllReduce      N values -> N values, each reduced over the ranks; `reduction`, `bucket`
// ReduceScatter  a value -> this rank's shard of dimension 0 of its reduction over the ranks;
//                `reduction`, `axis`, `factor`
// AllGather      the shards of dimension 0 -> the whole; `axis`, `factor`
// The compiler sets `bucket`, `axis` and `factor`. A plan runs these ops as instructions; their
// kernels, which only copy, run on one device only.
inline constexpr char kAllReduce[] = "AllReduce";
inline constexpr char kReduceScatter[] = "ReduceScatter";
inline constexpr char kAllGather[] = "AllGather";
// Ops that the compiler replaces or removes.
inline constexpr char kLocalPart[] = "LocalPart";
inline constexpr char kEnsureReplicated[] = "EnsureReplicated";
inline constexpr char kNumReplicas[] = "NumReplicas";

void RegisterCollectives(OpRegistry& ops);

namespace ops {

// LocalPart: the part of `value` that this replica holds. The parts of all replicas add up to the
// value. Any op, even one that is not linear, can take a part; it is applied to each replica's part
// separately.
// Sharding: partial(sum) -> per-replica. If the value is not a partial sum, replica 0 holds the
//           whole value and all other replicas hold zeros.
// Gradient: none; a part is not a function of the value.
Output LocalPart(const Scope& scope, Output value);

struct ReduceOptions {
  Reduction reduction = Reduction::kSum;
};

// AllReduce: reduces `value` over all replicas; every replica receives the result.
// Sharding: partial -> replicated, per-replica -> replicated. A value that is equal on all replicas
//           is its own reduction; a sharded value is gathered.
// Gradient: dy if the reduction is a sum, otherwise none.
// Errors:   InvalidArgument if the value is partial with a different reduction. For the mean of the
//           parts of a sum, use AllReduce(LocalPart(value), mean).
Output AllReduce(const Scope& scope, Output value, const ReduceOptions& options = {});

// ReduceScatter: like AllReduce, but shards the result: each replica holds an equal number of the
// rows (dimension 0). The global value is the same. The op is an AllReduce inside a branch or loop,
// or if the number of rows is not a multiple of the number of replicas.
// Sharding: partial -> sharded(dim 0), per-replica -> sharded(dim 0).
// Gradient, errors: as for AllReduce.
Output ReduceScatter(const Scope& scope, Output value, const ReduceOptions& options = {});

// AllGather: gathers a sharded value; every replica receives the whole value.
// Sharding: sharded -> replicated.
// Gradient: dy.
// Errors:   InvalidArgument if the value is partial or per-replica, because its rows are not split;
//           use AllReduce.
Output AllGather(const Scope& scope, Output value);

// EnsureReplicated: returns its operand, which must already be equal on all replicas, without
// further communication. Errors call the operand `what`.
// Gradient: dy.
// Errors:   InvalidArgument, with the path to the value, if the replicas' values differ or must
//           still be reduced or gathered.
Output EnsureReplicated(const Scope& scope, Output value, absl::string_view what);

// NumReplicas: the number of replicas in sync, an int32 scalar; 1 on one device (TensorFlow's
// num_replicas_in_sync). Like ReplicaIndex, it is an exception to the rule that a strategy never
// changes what a graph computes. Its value is known when the step is compiled, so shapes may depend
// on it.
// Gradient: none; the output is an integer.
Output NumReplicas(const Scope& scope);

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_COLLECTIVES_H_
