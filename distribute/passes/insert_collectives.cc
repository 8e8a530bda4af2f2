// SPDX-License-Identifier: Apache-2.0
#include "distribute/passes/insert_collectives.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "distribute/collective/collective_ops.h"
#include "distribute/passes/replace_uses.h"
#include "framework/core/status.h"
#include "ops/binary.h"
#include "ops/binary_math.h"
#include "ops/constant.h"
#include "ops/reduction.h"
#include "ops/shape_ops.h"
#include "ops/transpose.h"

namespace mirrorflow {
namespace {

class Inserter {
 public:
  explicit Inserter(Compilation& c) : c_(c) {}

  absl::StatusOr<bool> Run() {
    const std::vector<Node*> nodes = c_.graph.Nodes();  // a snapshot without the nodes added below
    for (const Node* node : nodes) {
      for (int i = 0; i < node->num_inputs(); ++i) Want(node->input(i), Required(*node, i));
    }
    for (size_t i = 0; i < c_.fetches.size(); ++i) Want(c_.fetches[i], RequiredOfFetch(i));
    for (Node* node : nodes) {
      for (int i = 0; i < node->num_inputs(); ++i) {
        const Sharding required = Required(*node, i);
        if (c_.shardings.at(node->input(i)) == required) continue;
        MF_ASSIGN_OR_RETURN(const Output value, Convert(node->input(i), required));
        c_.graph.SetInput(node, i, value);
        changed_ = true;
      }
    }
    for (Node* node : nodes) {
      if (node->op().role == OpRole::kCollective) MF_RETURN_IF_ERROR(Resolve(node));
      if (node->op().name == kEnsureReplicated) Remove(node);
    }
    c_.RemoveDeadNodes();
    for (size_t i = 0; i < c_.fetches.size(); ++i) {
      const Output fetch = c_.fetches[i];
      MF_ASSIGN_OR_RETURN(c_.fetches[i], Convert(fetch, RequiredOfFetch(i)));
      changed_ |= c_.fetches[i] != fetch;
    }
    return changed_;
  }

 private:
  // Returns the sharding of fetch `i` when it leaves the step. A sharded fetch stays sharded, and
  // each replica copies its rows out, unless the fetch is gathered because the replicas are on
  // several workers. A partial fetch is reduced with the value's own reduction.
  Sharding RequiredOfFetch(size_t i) const {
    if (c_.is_body) return c_.result_shardings[i];
    const Sharding& have = c_.shardings.at(c_.fetches[i]);
    const bool gathers = AsSharded(have) != nullptr && i < c_.gathered.size() && c_.gathered[i];
    return gathers || AsPartial(have) != nullptr ? Sharding(Replicated()) : have;
  }

  Sharding Required(const Node& node, int i) const {
    const Shardings& required = c_.required_inputs[node.id()];
    return required.empty() ? Sharding(Replicated()) : required[i];
  }

  void Want(const Output& value, const Sharding& sharding) {
    if (AsPartial(c_.shardings.at(value)) == nullptr) return;
    std::vector<Sharding>& all = wanted_[value];
    if (std::find(all.begin(), all.end(), sharding) == all.end()) all.push_back(sharding);
  }

  // Completes a collective that the user's graph contains: sets its attributes, or replaces a
  // ReduceScatter that cannot have equal shards with an AllReduce. Removes the collective if its
  // operand already has the result's sharding.
  absl::Status Resolve(Node* node) {
    const Sharding have = Required(*node, 0), want = c_.shardings.at(node->output(0));
    if (have == want) {
      Remove(node);
      return absl::OkStatus();
    }
    if (const Sharded* s = AsSharded(want)) {
      c_.graph.SetAttr(node, "axis", static_cast<int64_t>(s->axis));
      c_.graph.SetAttr(node, "factor", s->factor);
    } else if (node->op().name != kAllReduce) {  // a ReduceScatter that cannot have equal shards
      const Scope scope = c_.scope().SubScope(node->name()).WithControlInputsOf(*node);
      const Output whole =
          AllReduce(scope, node->input(0), node->attr<std::string>("reduction"), want);
      MF_RETURN_IF_ERROR(c_.graph.status());
      c_.required_inputs.resize(c_.graph.id_limit());
      c_.required_inputs[whole.node->id()] = {have};
      c_.ReplaceValue(node->output(0), whole);
      c_.ReplaceOperation(node, whole.node);
    }
    changed_ = true;
    return absl::OkStatus();
  }

  void Remove(Node* node) {
    ReplaceAllUses(c_, node, {node->input(0)});
    changed_ = true;
  }

  absl::StatusOr<Output> Convert(const Output& value, const Sharding& want) {
    const Sharding have = c_.shardings.at(value);
    if (have == want) return value;
    for (const auto& [done, result] : conversions_[value]) {
      if (done == want) return result;
    }
    Output result;
    if (IsPerReplica(want)) {
      // The value is a branch result, and in the other branch it differs between replicas. Partial
      // sums and replicated values are valid per-replica values without conversion.
      if (AsSharded(have) != nullptr) return Convert(value, Replicated());
      const Partial* partial = AsPartial(have);
      if (partial == nullptr || partial->reduction == Reduction::kSum) return value;
      return Convert(value, Partial{Reduction::kSum});
    }
    if (const Partial* mean = AsPartial(have);
        mean != nullptr && mean->reduction == Reduction::kMean) {
      MF_ASSIGN_OR_RETURN(result, Convert(PartOfMean(value, mean->axis), want));
    } else if (const Sharded* s = AsSharded(want)) {
      if (AsPartial(have) != nullptr && wanted_[value].size() == 1) {
        result = ReduceScatter(value, *s);
      } else {
        MF_ASSIGN_OR_RETURN(const Output whole, Convert(value, Replicated()));
        result = Slice(whole, *s);
      }
    } else if (AsPartial(want) != nullptr) {
      MF_ASSIGN_OR_RETURN(const Output whole, Convert(value, Replicated()));
      result = Mark(c_.scope()
                        .WithName(absl::StrCat(whole.node->name(), "/part"))
                        .Build(CollectiveOps(), kFirstReplicaOnly)
                        .Input(whole)
                        .One(),
                    want);
    } else if (const Partial* p = AsPartial(have)) {
      const Scope scope = c_.scope().WithName(absl::StrCat(value.node->name(), "/all_reduce"));
      result = AllReduce(scope, value, ReductionName(p->reduction), Replicated());
    } else if (const Sharded* s = AsSharded(have); s != nullptr && IsReplicated(want)) {
      result = Gather(value, *s);
    } else {
      return absl::InternalError(absl::StrCat("cannot convert ", ShardingToString(have), " to ",
                                              ShardingToString(want), " for ", value.ToString()));
    }
    MF_RETURN_IF_ERROR(c_.graph.status());
    conversions_[value].emplace_back(want, result);
    return result;
  }

  Output Mark(Output output, const Sharding& sharding) {
    if (output.valid()) c_.shardings.Set(output, sharding);
    return output;
  }

  Output AllReduce(const Scope& scope, const Output& value, absl::string_view reduction,
                   const Sharding& sharding) {
    return Mark(scope.Build(CollectiveOps(), kAllReduce)
                    .InputList({value})
                    .Attr("reduction", reduction)
                    .One(),
                sharding);
  }

  // Returns a replica's contribution to the mean: `value` times its fraction of all rows. A replica
  // without rows contributes 0, whatever `value` is.
  Output PartOfMean(const Output& value, AxisId axis) {
    const Partial sum{Reduction::kSum};
    const Scope scope = c_.scope().SubScope(absl::StrCat(value.node->name(), "/weighted"));
    const int64_t rows = c_.axes[axis].size;
    auto scalar = [&](double x) { return ops::ScalarConst(scope, value.dtype(), x); };
    const Output ones =
        Mark(ops::Fill(scope, ops::VectorConst(scope, std::vector<int64_t>{rows}), scalar(1)),
             Sharded{axis, 0, 1});
    const Output own_rows = Mark(ops::Sum(scope, ones, {0}), sum);
    const Output weight =
        Mark(ops::Mul(scope, own_rows, scalar(1 / static_cast<double>(rows))), sum);
    return Mark(ops::MulNoNan(scope, value, weight), sum);
  }

  Output Slice(const Output& whole, const Sharded& s) {
    return Mark(c_.scope()
                    .WithName(absl::StrCat(whole.node->name(), "/share"))
                    .Build(CollectiveOps(), kShardSlice)
                    .Input(whole)
                    .Attr("axis", s.axis)
                    .Attr("dim", s.dim)
                    .Attr("factor", s.factor)
                    .One(),
                s);
  }

  Output Gather(const Output& shard, const Sharded& s) {
    const Scope scope = c_.scope().SubScope(absl::StrCat(shard.node->name(), "/gather"));
    const Output front =
        Transpose(scope, shard, DimToFront(shard, s.dim), Sharded{s.axis, 0, s.factor});
    const Output whole = Mark(scope.Build(CollectiveOps(), kAllGather)
                                  .Input(front)
                                  .Attr("axis", s.axis)
                                  .Attr("factor", s.factor)
                                  .One(),
                              Replicated());
    return Transpose(scope, whole, Inverse(DimToFront(shard, s.dim)), Replicated());
  }

  Output ReduceScatter(const Output& part, const Sharded& s) {
    const Scope scope = c_.scope().SubScope(absl::StrCat(part.node->name(), "/reduce_scatter"));
    const Partial partial = *AsPartial(c_.shardings.at(part));
    const Output front = Transpose(scope, part, DimToFront(part, s.dim), partial);
    const Output shard = Mark(scope.Build(CollectiveOps(), kReduceScatter)
                                  .Input(front)
                                  .Attr("reduction", ReductionName(partial.reduction))
                                  .Attr("axis", s.axis)
                                  .Attr("factor", s.factor)
                                  .One(),
                              Sharded{s.axis, 0, s.factor});
    return Transpose(scope, shard, Inverse(DimToFront(part, s.dim)), s);
  }

  // Returns the permutation that moves `dim` to the front. Collectives gather and scatter only the
  // leading dimension, so any other dimension is transposed to the front and back.
  std::vector<int32_t> DimToFront(const Output& x, int dim) const {
    std::vector<int32_t> perm(c_.values().shape(x).rank());
    std::iota(perm.begin(), perm.end(), 0);
    std::rotate(perm.begin(), perm.begin() + dim, perm.begin() + dim + 1);
    return perm;
  }

  static std::vector<int32_t> Inverse(const std::vector<int32_t>& perm) {
    std::vector<int32_t> inverse(perm.size());
    for (size_t i = 0; i < perm.size(); ++i) inverse[perm[i]] = static_cast<int32_t>(i);
    return inverse;
  }

  Output Transpose(const Scope& scope, const Output& x, const std::vector<int32_t>& perm,
                   const Sharding& sharding) {
    if (std::is_sorted(perm.begin(), perm.end())) return x;
    return Mark(ops::Transpose(scope, x, ops::Const(scope, Tensor::Vector<int32_t>(perm))),
                sharding);
  }

  Compilation& c_;
  absl::flat_hash_map<Output, std::vector<std::pair<Sharding, Output>>> conversions_;
  // The different shardings that the uses of each partial value require.
  absl::flat_hash_map<Output, std::vector<Sharding>> wanted_;
  bool changed_ = false;
};

}  // namespace

absl::StatusOr<bool> InsertCollectives::Run(Compilation& c) {
  if (!c.shard) return false;  // shardings only mark rows (FindBatchRows)
  return Inserter(c).Run();
}

}  // namespace mirrorflow
