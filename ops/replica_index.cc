// SPDX-License-Identifier: Apache-2.0
#include "ops/replica_index.h"

#include "framework/graph/shape_inference.h"
#include "ops/registry.h"

namespace mirrorflow {
namespace {

absl::Status ReplicaIndexShape(ShapeContext& c) {
  c.set_output(0, Shape({}));
  return absl::OkStatus();
}

}  // namespace

void RegisterReplicaIndex(OpRegistry& ops) {
  ops.Define("ReplicaIndex")
      .Doc("index = the index of this replica among all replicas in sync")
      .Output("index: int32")
      .Traits(kStateful | kPerReplica)
      .Shape(ReplicaIndexShape)
      .Gathers("every replica has its own")
      .NoGradient("an integer");
}

namespace ops {

Output ReplicaIndex(const Scope& scope) { return Build(scope, "ReplicaIndex").One(); }

}  // namespace ops
}  // namespace mirrorflow
