// SPDX-License-Identifier: Apache-2.0
#include "ops/collectives.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/constant.h"
#include "ops/identity.h"
#include "ops/registry.h"
#include "ops/shape_values.h"

namespace mirrorflow {
namespace {

// Shapes are global: a value's shape does not depend on its sharding.
absl::Status SameShapes(ShapeContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) c.set_output(i, c.input(i));
  return absl::OkStatus();
}

// Expands the op on one replica.
absl::StatusOr<std::vector<Output>> Identities(const Scope& scope, const Node& node) {
  std::vector<Output> outputs;
  for (const Output& in : node.inputs()) outputs.push_back(ops::Identity(scope, in));
  return outputs;
}

absl::StatusOr<std::vector<Output>> One(const Scope& scope, const Node&) {
  return std::vector<Output>{ops::Const(scope, Tensor::Scalar<int32_t>(1))};
}

absl::StatusOr<std::vector<Output>> IdentityGrad(const GradContext& c) {
  return std::vector<Output>(c.dy.begin(), c.dy.end());
}

absl::StatusOr<std::vector<Output>> ReduceGrad(const GradContext& c) {
  const std::string& reduction = c.op.attr<std::string>("reduction");
  if (reduction == ReductionName(Reduction::kSum)) return IdentityGrad(c);
  return absl::UnimplementedError(
      absl::StrCat(OpAndName(c.op), ": only reduction 'sum' has a gradient, got ", reduction));
}

absl::StatusOr<ShardingRule> LocalPartSharding(const ShardContext&) {
  // With kPerReplica and a linear rule, the op receives the parts of a sum without reducing them.
  return ShardingRule{.dims = "*->*", .linearity = Linearity::kJoint};
}

constexpr char kReduction[] = "reduction: {'sum', 'mean', 'max', 'min', 'all', 'any'} = 'sum'";
constexpr char kAxis[] = "axis: int = -1";
constexpr char kFactor[] = "factor: int = 0";
constexpr char kBecause[] = "PropagateSharding handles it";

OpBuilder DefineCollective(OpRegistry& ops, absl::string_view name, absl::string_view doc) {
  return ops.Define(name)
      .Doc(doc)
      .Attr("T: type")
      .Traits(kStateful | kOwnOp)
      .Role(OpRole::kCollective)
      .Shape(SameShapes)
      .Gathers(kBecause)
      .Expand(Identities);
}

Output Reduce(const Scope& scope, absl::string_view op, Output value,
              const ops::ReduceOptions& options) {
  return ops::Build(scope, op)
      .InputList({value})
      .Attr("reduction", std::string(ReductionName(options.reduction)))
      .One();
}

}  // namespace

void RegisterCollectives(OpRegistry& ops) {
  DefineCollective(ops, kAllReduce, "each output is its input, reduced over all ranks")
      .Input("values: N * T")
      .Output("reduced: N * T")
      .Attr("N: int >= 1")
      .Attr(kReduction)
      .Attr("bucket: int = -1")
      .Gradient(ReduceGrad);
  DefineCollective(
      ops, kReduceScatter,
      "reduces the value over all ranks, of which each receives its shard of dimension 0")
      .Input("value: T")
      .Output("share: T")
      .Attr(kReduction)
      .Attr(kAxis)
      .Attr(kFactor)
      .Gradient(ReduceGrad);
  DefineCollective(
      ops, kAllGather,
      "gathers a value whose dimension 0 is sharded, so that every rank receives the whole value")
      .Input("share: T")
      .Output("whole: T")
      .Attr(kAxis)
      .Attr(kFactor)
      .Gradient(IdentityGrad);
  ops.Define(kLocalPart)
      .Doc("this replica's part of the value; the parts of all replicas add up to the value")
      .Input("value: T")
      .Output("part: T")
      .Attr("T: {half, bfloat16, float, double, int32, int64, uint8}")
      // The op is stateful so that it is not folded: a constant would be the same on every replica.
      .Traits(kStateful | kPerReplica | kOwnOp | kView)
      .Shape(SameShapes)
      .Sharding(LocalPartSharding)
      .NoGradient("a replica's part of a value is not a function of the value")
      .Expand(Identities);
  ops.Define(kEnsureReplicated)
      .Doc("output = input, which must be equal on all replicas; errors call it `what`")
      .Input("input: T")
      .Output("output: T")
      .Attr("what: string")
      .Attr("T: type")
      .Traits(kStateful | kOwnOp | kView)
      .Shape(SameShapes)
      .Gathers(kBecause)
      .Gradient(IdentityGrad)
      .Expand(Identities);
  ops.Define(kNumReplicas)
      .Doc("number = the number of replicas in sync")
      .Output("number: int32")
      .Traits(kStateful | kOwnOp)
      .Shape(ScalarShape)
      .Gathers("CountReplicas replaces it with a constant")
      .NoGradient("the output is an integer")
      .Expand(One);
}

namespace ops {

Output LocalPart(const Scope& scope, Output value) { return Apply(scope, kLocalPart, {value}); }

Output AllReduce(const Scope& scope, Output value, const ReduceOptions& options) {
  return Reduce(scope, kAllReduce, value, options);
}

Output ReduceScatter(const Scope& scope, Output value, const ReduceOptions& options) {
  return Reduce(scope, kReduceScatter, value, options);
}

Output AllGather(const Scope& scope, Output value) { return Apply(scope, kAllGather, {value}); }

Output EnsureReplicated(const Scope& scope, Output value, absl::string_view what) {
  return Build(scope, kEnsureReplicated, {value}).Attr("what", std::string(what)).One();
}

Output NumReplicas(const Scope& scope) { return Build(scope, kNumReplicas).One(); }

}  // namespace ops
}  // namespace mirrorflow
