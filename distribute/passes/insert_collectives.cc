// SPDX-License-Identifier: Apache-2.0
#include "distribute/passes/insert_collectives.h"

#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "distribute/collective/collective_ops.h"
#include "framework/core/status.h"
#include "ops/constant.h"
#include "ops/transpose.h"

namespace mirrorflow {
namespace {

class Inserter {
 public:
  explicit Inserter(Compilation& c) : c_(c) {}

  absl::StatusOr<bool> Run() {
    for (Node* node : c_.graph.Nodes()) {
      // Copied: nodes that are added below make the table grow.
      const std::vector<Sharding> required = c_.required_inputs[node->id()];
      for (int i = 0; i < static_cast<int>(required.size()); ++i) {
        MF_ASSIGN_OR_RETURN(const Output value, Convert(node->input(i), required[i]));
        if (value == node->input(i)) continue;
        c_.graph.SetInput(node, i, value);
        changed_ = true;
      }
    }
    // Owners copy out their rows of a sharded fetch; a partial one joins its value's reduction.
    for (Output& fetch : c_.fetches) {
      if (AsPartial(c_.shardings.at(fetch)) == nullptr) continue;
      MF_ASSIGN_OR_RETURN(fetch, Convert(fetch, Replicated()));
      changed_ = true;
    }
    return changed_;
  }

 private:
  absl::StatusOr<Output> Convert(const Output& value, const Sharding& want) {
    const Sharding have = c_.shardings.at(value);
    if (have == want) return value;
    for (const auto& [done, result] : conversions_[value]) {
      if (done == want) return result;
    }
    Output result;
    if (const Sharded* s = AsSharded(want)) {
      MF_ASSIGN_OR_RETURN(const Output whole, Convert(value, Replicated()));
      result = Slice(whole, *s);
    } else if (const Partial* p = AsPartial(have)) {
      result = Mark(c_.scope()
                        .WithName(absl::StrCat(value.node->name(), "/all_reduce"))
                        .Build(CollectiveOps(), kAllReduce)
                        .InputList({value})
                        .Attr("reduction", ReductionName(p->reduction))
                        .One(),
                    Replicated());
    } else if (const Sharded* s = AsSharded(have); s != nullptr && IsReplicated(want)) {
      result = Gather(value, *s);
    } else {
      return absl::InternalError(absl::StrCat("no way from ", ShardingToString(have), " to ",
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

  // Collectives gather the leading dimension; another one is moved there and back.
  Output Gather(Output share, const Sharded& s) {
    const Scope scope = c_.scope().SubScope(absl::StrCat(share.node->name(), "/gather"));
    const int rank = c_.values().shape(share).rank();
    std::vector<int32_t> to_front(rank), back(rank);
    std::iota(to_front.begin(), to_front.end(), 0);
    to_front.erase(to_front.begin() + s.dim);
    to_front.insert(to_front.begin(), s.dim);
    for (int i = 0; i < rank; ++i) back[to_front[i]] = i;
    auto transpose = [&](const Output& x, const std::vector<int32_t>& perm,
                         const Sharding& sharding) {
      return Mark(ops::Transpose(scope, x, ops::Const(scope, Tensor::Vector<int32_t>(perm))),
                  sharding);
    };
    if (s.dim != 0) share = transpose(share, to_front, Sharded{s.axis, 0, s.factor});
    Output whole = Mark(scope.Build(CollectiveOps(), kAllGather)
                            .Input(share)
                            .Attr("axis", s.axis)
                            .Attr("factor", s.factor)
                            .One(),
                        Replicated());
    if (s.dim != 0) whole = transpose(whole, back, Replicated());
    return whole;
  }

  Compilation& c_;
  absl::flat_hash_map<Output, std::vector<std::pair<Sharding, Output>>> conversions_;
  bool changed_ = false;
};

}  // namespace

absl::StatusOr<bool> InsertCollectives::Run(Compilation& c) { return Inserter(c).Run(); }

}  // namespace mirrorflow
