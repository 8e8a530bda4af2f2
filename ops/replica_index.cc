// SPDX-License-Identifier: Apache-2.0
#include "ops/replica_index.h"

#include "framework/graph/shape_inference.h"
#include "ops/constant.h"
#include "ops/registry.h"
#include "ops/shape_values.h"

namespace mirrorflow {
namespace {

// Expands the op on one replica.
absl::StatusOr<std::vector<Output>> ReplicaIndexExpand(const Scope& scope, const Node&) {
  return std::vector<Output>{ops::Const(scope, Tensor::Scalar<int32_t>(0))};
}

}  // namespace

void RegisterReplicaIndex(OpRegistry& ops) {
  ops.Define("ReplicaIndex")
      .Doc("index = the index of this replica among all replicas in sync")
      .Output("index: int32")
      .Traits(kStateful | kPerReplica | kOwnOp)
      .Shape(ScalarShape)
      .Expand(ReplicaIndexExpand)
      .Gathers("every replica has a different value")
      .NoGradient("the output is an integer");
}

namespace ops {

Output ReplicaIndex(const Scope& scope) { return Build(scope, "ReplicaIndex").One(); }

}  // namespace ops
}  // namespace mirrorflow
