// SPDX-License-Identifier: Apache-2.0
#include "distribute/passes/propagate_sharding.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "distribute/passes/mark_rows.h"
#include "distribute/passes/replace_uses.h"
#include "distribute/passes/shard_bodies.h"
#include "distribute/passes/sharding_candidates.h"
#include "framework/core/status.h"
#include "ops/collectives.h"

namespace mirrorflow {
namespace {

constexpr int kMaxExpansionDepth = 16;
constexpr int kMaxRuns = 1 << 20;

class Propagation {
 public:
  Propagation(Compilation& c, int& runs_left) : c_(c), runs_left_(runs_left) {}

  absl::Status Run() {
    if (runs_left_-- == 0) {
      return absl::ResourceExhaustedError(
          "sharding of nested branches and loops: too many propagation runs; reduce the nesting");
    }
    MF_RETURN_IF_ERROR(ShardFeeds());
    MF_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(c_.graph));
    for (const Node* node : order) order_.push_back(node->id());
    FindWantedParts(order);
    for (bool again = true; again;) {
      MF_ASSIGN_OR_RETURN(again, Sweep());
      again |= ReduceFetches();
    }
    if (has_expanded_) c_.RemoveDeadNodes();
    return SweepBackward();
  }

 private:
  // Splits each feed along its leading dimension if its placeholder leaves that dimension unknown.
  absl::Status ShardFeeds() {
    c_.shardings.Clear();
    if (c_.is_body) {  // bodies use the axes of the step
      for (size_t i = 0; i < c_.feeds.size(); ++i) {
        c_.shardings.Set(c_.feeds[i], c_.argument_shardings[i]);
      }
      return absl::OkStatus();
    }
    c_.axes.clear();
    MF_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, FeedAxes(c_));
    for (const int64_t size : sizes) c_.axes.push_back({size});
    bool has_rows = false, has_open = false;
    for (size_t i = 0; i < c_.feeds.size(); ++i) {
      const Output& feed = c_.feeds[i];
      const Shape& shape = c_.feed_shapes[i];
      const bool open = IsSplit(feed, shape);
      has_rows |= shape.rank() > 0;
      has_open |= open;
      if (!open || shape.dim(0) == 0) continue;
      const auto axis = std::find(sizes.begin(), sizes.end(), shape.dim(0)) - sizes.begin();
      c_.shardings.Set(feed, Sharded{static_cast<AxisId>(axis), 0, 1});
    }
    if (!has_rows || has_open) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "feed ", c_.feeds[0].ToString(),
        ": no feed can be split over the replicas, so each would do all of the work; expected a "
        "placeholder with an unknown leading dimension, got ",
        c_.feed_shapes[0].ToString()));
  }

  // Returns the sharding that uses see. It is replicated for a partial value that some use cannot
  // take, because such a value is reduced first.
  Sharding Seen(const Output& output) const {
    const Sharding& sharding = c_.shardings.at(output);
    return AsPartial(sharding) && reduced_.contains(output) ? Replicated() : sharding;
  }

  // Returns the path from the node where `value`'s sharding originates to `sink`. All values on the
  // path have the same kind of sharding.
  std::string Path(const Node* sink, const Output& value) const {
    const size_t kind = c_.shardings.at(value).index();
    std::vector<std::string> path = {OpAndName(*sink)};
    const Node* node = value.node;
    while (true) {
      path.push_back(OpAndName(*node));
      const Node* next = nullptr;
      for (const Output& in : node->inputs()) {
        if (c_.shardings.at(in).index() == kind) next = in.node;
      }
      if (next == nullptr) break;
      node = next;
    }
    std::reverse(path.begin(), path.end());
    return absl::StrJoin(path, " -> ");
  }

  // Returns the error for a per-replica `value` that `sink` cannot take.
  absl::Status PerReplicaError(const Node* sink, const Output& value,
                               absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("a value that differs between replicas ", what, ": ", Path(sink, value),
                     "; expected a value that is equal on all replicas or that can be reduced"));
  }

  // Chooses the candidate of every node. Returns whether another sweep is needed.
  absl::StatusOr<bool> Sweep() {
    c_.required_inputs.resize(c_.graph.id_limit());
    taken_partial_.clear();
    const std::vector<NodeId> order = std::exchange(order_, {});
    order_.reserve(order.size());
    bool again = false;
    for (const NodeId id : order) {
      MF_ASSIGN_OR_RETURN(const bool restart, VisitOrExpand(id, 0));
      again |= restart;
    }
    return again;
  }

  // Visits the node, or the nodes of its decomposition if the chosen candidate requires it.
  absl::StatusOr<bool> VisitOrExpand(NodeId id, int depth) {
    Node* node = c_.graph.node(id);
    expand_ = false;
    MF_ASSIGN_OR_RETURN(bool again, Visit(node));
    if (!std::exchange(expand_, false)) {
      order_.push_back(id);
      return again;
    }
    if (depth == kMaxExpansionDepth) {
      return absl::InternalError(
          absl::StrCat(OpAndName(*node), ": decomposition does not terminate"));
    }
    // The ids of the new nodes are in topological order, and the inputs of `node` have been
    // visited.
    const NodeId first = c_.graph.id_limit();
    MF_RETURN_IF_ERROR(Expand(node));
    const NodeId limit = c_.graph.id_limit();
    c_.required_inputs.resize(limit);
    for (NodeId made = first; made < limit; ++made) {
      MF_ASSIGN_OR_RETURN(const bool restart, VisitOrExpand(made, depth + 1));
      again |= restart;
    }
    return again;
  }

  // Chooses the node's candidate. Returns whether another sweep is needed.
  absl::StatusOr<bool> Visit(Node* node) {
    switch (node->op().role) {
      case OpRole::kPlaceholder:  // ShardFeeds has set its sharding
        return false;
      case OpRole::kWrite:
        if (OnReadVariable(*node) != nullptr) return WriteOnRead(node);
        for (const Output& in : node->inputs()) {
          if (IsPerReplica(c_.shardings.at(in))) {
            return PerReplicaError(node, in, "reaches a mirrored variable");
          }
        }
        return TakeWhole(node);
      case OpRole::kRead:
        if (OnReadVariable(*node) != nullptr) {
          return Take(node, {.inputs = {Replicated()}, .outputs = {Partial{Reduction::kSum}}});
        }
        return TakeWhole(node);
      case OpRole::kConstant:
      case OpRole::kVariable:
      case OpRole::kNoOp:
      case OpRole::kHasValue:  // an earlier pass has replaced it
      case OpRole::kUnknown:   // an earlier pass has reported an error
      case OpRole::kSliceRows:
      case OpRole::kJoinRows:  // a later pass adds these
        return TakeWhole(node);
      case OpRole::kCollective:
        return VisitCollective(node);
      case OpRole::kBranch:
      case OpRole::kLoop:
        return VisitControlFlow(node);
      case OpRole::kNone:
      case OpRole::kAddAll:
      case OpRole::kOnesLike:
        break;
    }
    if (node->op().name == kEnsureReplicated) return CheckReplicated(node);
    bool per_replica = node->op().has(kPerReplica);
    bool replicated = !per_replica;
    for (const Output& in : node->inputs()) {
      per_replica |= IsPerReplica(c_.shardings.at(in));
      replicated &= IsReplicated(Seen(in));
    }
    if (replicated) {  // the rule is needed only for marked rows (MarkRows)
      const std::optional<Sharded> rows = MadeRows(*node);
      if (!rows.has_value()) return TakeWhole(node);
      MF_ASSIGN_OR_RETURN(std::optional<ShardingCandidate> shard, ShardOf(*node, *rows));
      return shard.has_value() ? Take(node, *std::move(shard)) : TakeWhole(node);
    }
    MF_ASSIGN_OR_RETURN(const NodeSharding* sharding, RuleOf(*node));
    if (per_replica) return VisitPerReplica(node, *sharding);
    if (std::optional<ShardingCandidate> parts = AsParts(*node, *sharding)) {
      return Take(node, *std::move(parts));
    }
    return Take(node, *Cheapest(*node, *sharding));
  }

  // Finds the nodes that are used only as the replicas' parts of a sum, never as the sum: all their
  // users are LocalPart or other such nodes.
  void FindWantedParts(const std::vector<Node*>& order) {
    only_parts_.assign(c_.graph.id_limit(), false);
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      const Node& node = **it;
      if (!Computes(node.op()) || node.num_outputs() != 1) continue;
      bool used = false, only = !c_.IsFetched(node.output(0));
      for (const Use& use : node.uses()) {
        if (use.slot == Use::kControl) continue;
        used = true;
        only = only && (use.user->op().name == kLocalPart || only_parts_[use.user->id()]);
      }
      if (!used || !only) continue;
      // Only a linear op can work on parts. If the rule is invalid, the sweep reports the error.
      const absl::StatusOr<const NodeSharding*> rule = RuleOf(node);
      only_parts_[node.id()] = rule.ok() && (*rule)->AllAsParts().has_value();
    }
  }

  // Returns the candidate that works on the parts of a sum, if only these parts are used; nullopt
  // if no input is a partial sum. It lets a gradient reach a hook unreduced even if a replicated
  // value is added to it, as with weight decay in the loss.
  std::optional<ShardingCandidate> AsParts(const Node& node, const NodeSharding& sharding) const {
    if (node.id() >= static_cast<NodeId>(only_parts_.size()) || !only_parts_[node.id()]) {
      return std::nullopt;
    }
    bool has_partial = false;
    for (const Output& in : node.inputs()) {
      const Sharding seen = Seen(in);
      const bool is_sum = seen == Sharding(Partial{Reduction::kSum});
      if (!is_sum && !IsReplicated(seen)) return std::nullopt;
      has_partial |= is_sum;
    }
    return has_partial ? sharding.AllAsParts() : std::nullopt;
  }

  // Visits a node that produces or takes values that differ between replicas. The node passes such
  // values through. The exception is state, which only the gradient of the op that produced it
  // accepts.
  absl::StatusOr<bool> VisitPerReplica(Node* node, const NodeSharding& sharding) {
    if (!node->op().has(kPerReplica)) {
      std::optional<ShardingCandidate> accepting = Cheapest(*node, sharding);
      if (accepting.has_value()) return Take(node, *std::move(accepting));
    }
    ShardingCandidate candidate = sharding.Whole();
    for (int i = 0; i < node->num_inputs(); ++i) {
      const Output& in = node->input(i);
      if (!IsPerReplica(c_.shardings.at(in))) {
        if (sharding.TakesParts()) candidate.inputs[i] = Partial{Reduction::kSum};
        continue;
      }
      MF_RETURN_IF_ERROR(CheckNoState(*node, in));
      candidate.inputs[i] = PerReplica();
    }
    candidate.outputs.assign(node->num_outputs(), PerReplica());
    return Take(node, std::move(candidate));
  }

  // Returns whether the outputs of `node` are state: values that differ between replicas only
  // because the op's sharding rule declares them as per-replica.
  bool IsState(const Node& node) const {
    return Computes(node.op()) && !node.op().has(kPerReplica) &&
           std::ranges::none_of(
               node.inputs(), [&](const Output& in) { return IsPerReplica(c_.shardings.at(in)); });
  }

  absl::Status CheckNoState(const Node& node, const Output& in) const {
    if (!IsPerReplica(c_.shardings.at(in)) || !IsState(*in.node)) return absl::OkStatus();
    return PerReplicaError(&node, in, "is state that only a gradient op accepts");
  }

  // Visits a collective that the user's graph contains (ops/collectives.h). It takes a partial or
  // per-replica value without conversion. For any other value, it has no effect, and
  // InsertCollectives removes it.
  absl::StatusOr<bool> VisitCollective(Node* node) {
    if (node->num_inputs() != 1) {
      return absl::UnimplementedError(
          absl::StrCat(OpAndName(*node), ": expected one value, got ", node->num_inputs()));
    }
    const Output& in = node->input(0);
    const Sharding have = Seen(in);
    MF_RETURN_IF_ERROR(CheckNoState(*node, in));
    ShardingCandidate candidate{.inputs = {Replicated()}, .outputs = {Replicated()}};
    if (node->op().name == kAllGather) {
      if (AsPartial(have) == nullptr && !IsPerReplica(have)) return Take(node, candidate);
      return absl::InvalidArgumentError(absl::StrCat(
          OpAndName(*node), ": expected a value whose rows are split over the replicas, got ",
          ShardingToString(have), ": ", Path(node, in), "; use AllReduce"));
    }
    if (IsPerReplica(have)) candidate.inputs = {PerReplica()};
    if (const Partial* partial = AsPartial(have)) {
      const std::string& reduction = node->attr<std::string>("reduction");
      if (reduction != ReductionName(partial->reduction)) {
        return absl::InvalidArgumentError(absl::StrCat(
            OpAndName(*node), ": expected reduction ", ReductionName(partial->reduction),
            " for a value that is ", ShardingToString(have), ", got ", reduction,
            "; to combine the replicas' parts in another way, apply LocalPart to the value first"));
      }
      // A conversion by the compiler reduces a mean, because the parts must be weighted.
      if (partial->reduction != Reduction::kMean) candidate.inputs = {have};
    }
    if (node->op().name == kReduceScatter) {
      if (const auto shard = EqualShards(c_.values().shape(in))) {
        if (IsReplicated(candidate.inputs[0])) candidate.inputs = {*shard};
        candidate.outputs = {*shard};
      }
    }
    return Take(node, std::move(candidate));
  }

  // Returns the sharding with an equal number of rows on each replica, if one exists.
  std::optional<Sharding> EqualShards(const Shape& shape) {
    const int64_t replicas = c_.world.size;
    if (c_.is_body || shape.rank() == 0 || shape.dim(0) == 0 || shape.dim(0) % replicas != 0)
      return std::nullopt;
    auto axis = std::ranges::find(c_.axes, true, &Axis::of_replicas);
    if (axis == c_.axes.end()) {
      if (c_.axes.size() == kMaxAxes) return std::nullopt;
      axis = c_.axes.insert(axis, {.size = replicas, .of_replicas = true});
    }
    return Sharded{static_cast<AxisId>(axis - c_.axes.begin()), 0, shape.dim(0) / replicas};
  }

  // Visits EnsureReplicated.
  absl::StatusOr<bool> CheckReplicated(Node* node) {
    const Output& in = node->input(0);
    const Sharding& have = c_.shardings.at(in);
    if (IsReplicated(have)) return TakeWhole(node);
    return absl::InvalidArgumentError(
        absl::StrCat(node->attr<std::string>("what"),
                     ": expected a value that is equal on all replicas, got one that is ",
                     ShardingToString(have), ": ", Path(node, in)));
  }

  // Visits a branch or loop. Arguments enter the bodies with their shardings, but a predicate must
  // be whole, and loops do not accept per-replica values.
  absl::StatusOr<bool> VisitControlFlow(Node* node) {
    const Compilation::Bodies& bodies = c_.bodies.at(node->id());
    const int first = FirstArgument(node->op());
    Shardings arguments;
    std::vector<bool> is_zero;
    for (int i = 0; i < node->num_inputs(); ++i) {
      const Output& in = node->input(i);
      MF_RETURN_IF_ERROR(CheckNoState(*node, in));
      const bool may_differ = node->op().role == OpRole::kBranch && i >= first;
      if (IsPerReplica(c_.shardings.at(in)) && !may_differ) {
        return absl::UnimplementedError(
            absl::StrCat(OpAndName(*node), ": input ", i, " (", in.ToString(),
                         ") differs between the replicas; expected one value across all of them"));
      }
      if (i < first) continue;
      arguments.push_back(Seen(in));
      is_zero.push_back(IsZero(c_, in));
    }
    auto propagate = [this](Compilation& body) {
      body.axes = c_.axes;
      return Propagation(body, runs_left_).Run();
    };
    const bool loops = node->op().role == OpRole::kLoop;
    MF_ASSIGN_OR_RETURN(Shardings results,
                        Annotate(loops ? ShardLoop(bodies, arguments, is_zero, propagate)
                                       : ShardBranches(bodies, arguments, propagate),
                                 OpAndName(*node)));
    ShardingCandidate candidate;
    candidate.inputs.assign(first, Replicated());
    for (size_t i = 0; i < arguments.size(); ++i) {
      candidate.inputs.push_back(loops ? results[i] : arguments[i]);
    }
    candidate.outputs = std::move(results);
    return Take(node, std::move(candidate));
  }

  // Returns the node's sharding rule. It depends only on shapes, so it is cached for all sweeps.
  absl::StatusOr<const NodeSharding*> RuleOf(const Node& node) {
    if (node.id() >= static_cast<NodeId>(rules_.size())) rules_.resize(c_.graph.id_limit());
    std::unique_ptr<NodeSharding>& rule = rules_[node.id()];
    if (rule != nullptr) return rule.get();
    MF_ASSIGN_OR_RETURN(rule, NodeSharding::Create(c_, node));
    return rule.get();
  }

  // Returns the variable that the node reads or writes; null unless the variable is synchronised on
  // read.
  const VariableInfo* OnReadVariable(const Node& node) const {
    const int v = c_.layout != nullptr ? c_.layout->FindHandle(node.input(0)) : -1;
    return v >= 0 && c_.layout->variables()[v].on_read ? &c_.layout->variables()[v] : nullptr;
  }

  // Visits a write of a variable that is synchronised on read. Each replica stores a part of the
  // sum, so the written value must be a partial sum, and the write must be linear in it.
  absl::StatusOr<bool> WriteOnRead(Node* node) {
    MF_ASSIGN_OR_RETURN(const ShardingRule rule,
                        node->op().sharding(ShardContext(*node, c_.values())));
    if (rule.linearity != Linearity::kJoint) {
      return absl::InvalidArgumentError(
          absl::StrCat(OpAndName(*node), " writes variable '", OnReadVariable(*node)->name,
                       "', which is synchronised on read; only an assignment may write it"));
    }
    const Output& value = node->input(1);
    bool restart = false;
    const Sharding seen = Seen(value);
    const Partial* partial = AsPartial(seen);
    if (partial != nullptr && partial->reduction != Reduction::kSum) {
      restart = Reduce(value);
    }
    ShardingCandidate candidate{.inputs = {Replicated(), Partial{Reduction::kSum}}};
    if (IsReplicated(Seen(value)) && IsZero(c_, value)) candidate.inputs[1] = Replicated();
    if (IsPerReplica(seen)) {  // the replicas' values become the parts of the sum
      MF_RETURN_IF_ERROR(CheckNoState(*node, value));
      candidate.inputs[1] = PerReplica();
    }
    MF_ASSIGN_OR_RETURN(const bool again, Take(node, std::move(candidate)));
    return restart || again;
  }

  // Returns the candidate that moves the fewest bytes. Candidates are considered in this order: the
  // letters of sharded inputs, as declared; linearity; everything whole. Returns nullopt if an
  // input differs between replicas and no candidate accepts that.
  std::optional<ShardingCandidate> Cheapest(const Node& node, const NodeSharding& sharding) const {
    Shardings seen;
    for (const Output& in : node.inputs()) seen.push_back(Seen(in));
    std::optional<ShardingCandidate> best;
    int64_t min_bytes = std::numeric_limits<int64_t>::max();
    // Returns true if no bytes have to move, because then no later candidate can be better.
    auto consider = [&](std::optional<ShardingCandidate> candidate) {
      if (!candidate.has_value()) return false;
      int64_t bytes = 0;
      for (int i = 0; i < node.num_inputs(); ++i) {
        if (IsPerReplica(seen[i]) != IsPerReplica(candidate->inputs[i])) return false;
        bytes += ConversionBytes(seen[i], candidate->inputs[i], c_.ValueBytes(node.input(i)));
      }
      if (bytes < min_bytes) {
        min_bytes = bytes;
        best = std::move(candidate);
      }
      return min_bytes == 0;
    };
    absl::InlinedVector<std::pair<char, AxisId>, 4> tried;
    bool has_partial = false;
    for (int i = 0; i < node.num_inputs(); ++i) {
      has_partial |= AsPartial(seen[i]) != nullptr;
      const Sharded* s = AsSharded(seen[i]);
      if (s == nullptr) continue;
      const std::pair<char, AxisId> split = {sharding.InputLetter(i, s->dim), s->axis};
      if (std::find(tried.begin(), tried.end(), split) != tried.end()) continue;
      tried.push_back(split);
      if (consider(sharding.ForLetter(split.first, split.second))) return best;
    }
    if (has_partial) {
      std::vector<const Partial*> partial;
      std::vector<bool> is_zero;
      for (int i = 0; i < node.num_inputs(); ++i) {
        partial.push_back(AsPartial(seen[i]));
        is_zero.push_back(IsZero(c_, node.input(i)));
      }
      if (consider(sharding.ForPartial(partial, is_zero))) return best;
    }
    consider(sharding.Whole());
    return best;
  }

  absl::StatusOr<bool> TakeWhole(Node* node) {
    bool restart = false;
    for (const Output& in : node->inputs()) {
      if (AsPartial(Seen(in)) != nullptr) restart |= Reduce(in);
    }
    c_.required_inputs[node->id()].clear();
    for (int i = 0; i < node->num_outputs(); ++i) c_.shardings.Set(node->output(i), Replicated());
    return restart;
  }

  absl::StatusOr<bool> Take(Node* node, ShardingCandidate candidate) {
    if (candidate.expand) {
      expand_ = true;
      return false;
    }
    bool restart = false;
    for (int i = 0; i < node->num_inputs(); ++i) {
      if (AsPartial(Seen(node->input(i))) == nullptr) continue;
      if (AsPartial(candidate.inputs[i])) {
        taken_partial_.insert(node->input(i));
      } else {
        restart |= Reduce(node->input(i));
      }
    }
    c_.required_inputs[node->id()] = std::move(candidate.inputs);
    for (int i = 0; i < node->num_outputs(); ++i) {
      c_.shardings.Set(node->output(i), candidate.outputs[i]);
    }
    return restart;
  }

  // Marks a partial value as reduced for all its uses. Returns true if another sweep is needed,
  // because a node visited earlier in this sweep took the value unreduced.
  bool Reduce(const Output& value) {
    return reduced_.insert(value).second && taken_partial_.contains(value);
  }

  // Replaces the node with its decomposition. The node stays in the graph, unused.
  absl::Status Expand(Node* node) {
    if (node->op().expand == nullptr) {
      return absl::InternalError(absl::StrCat(
          node->op().name, ": its sharding rule sets `expand`, but the op has no decomposition"));
    }
    const Scope scope = c_.scope().SubScope(node->name()).WithControlInputsOf(*node);
    MF_ASSIGN_OR_RETURN(const std::vector<Output> outputs, node->op().expand(scope, *node));
    MF_RETURN_IF_ERROR(c_.graph.status());
    for (int i = 0; i < node->num_outputs(); ++i) c_.ReplaceValue(node->output(i), outputs[i]);
    c_.ReplaceOperation(node, outputs[0].node);
    has_expanded_ = true;
    return absl::OkStatus();
  }

  // Reduces partial values that are fetched. Returns whether another sweep is needed.
  bool ReduceFetches() {
    bool restart = false;
    for (const Output& fetch : c_.fetches) {
      if (c_.is_body) break;  // the enclosing node determines its results' shardings
      if (AsPartial(c_.shardings.at(fetch))) restart |= Reduce(fetch);
    }
    return restart;
  }

  // Returns the sharding that all uses of `output` need. Returns null if the uses need different
  // shardings, if one needs the whole value, or if the output is unused.
  const Sharded* Demand(const Output& output) const {
    const Sharded* demand = nullptr;
    for (const Use& use : output.node->uses()) {
      if (use.slot == Use::kControl || use.user->input(use.slot) != output) continue;
      const Shardings& required = c_.required_inputs[use.user->id()];
      const Sharded* s = required.empty() ? nullptr : AsSharded(required[use.slot]);
      if (s == nullptr || (demand != nullptr && !(*demand == *s))) return nullptr;
      demand = s;
    }
    return c_.IsFetched(output) ? nullptr : demand;
  }

  // Returns the candidate that makes each replica compute only its shard of output 0 from
  // replicated inputs, or nullopt if the op cannot do that.
  absl::StatusOr<std::optional<ShardingCandidate>> ShardOf(const Node& node, const Sharded& shard) {
    MF_ASSIGN_OR_RETURN(const NodeSharding* sharding, RuleOf(node));
    auto candidate = sharding->ForLetter(sharding->OutputLetter(0, shard.dim), shard.axis);
    if (candidate.has_value() && !(candidate->outputs[0] == Sharding(shard))) candidate.reset();
    return candidate;
  }

  absl::Status SweepBackward() {
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
      const Node* node = c_.graph.node(*it);
      if (node == nullptr) continue;  // it was removed together with an expanded node
      if (!Computes(node->op()) || node->num_outputs() != 1) continue;
      const Output output = node->output(0);
      if (!IsReplicated(c_.shardings.at(output))) continue;
      const Sharded* demand = Demand(output);
      if (demand == nullptr) continue;
      bool free = true;  // whether all inputs are replicated, so that slicing them costs nothing
      for (const Output& in : node->inputs()) free &= IsReplicated(c_.shardings.at(in));
      if (!free) continue;
      MF_ASSIGN_OR_RETURN(const std::optional<ShardingCandidate> candidate,
                          ShardOf(*node, *demand));
      if (!candidate.has_value()) continue;
      c_.required_inputs[node->id()] = candidate->inputs;
      c_.shardings.Set(output, candidate->outputs[0]);
    }
    return absl::OkStatus();
  }

  Compilation& c_;
  int& runs_left_;                                    // for the step and its bodies together
  std::vector<NodeId> order_;                         // topological; without expanded nodes
  std::vector<std::unique_ptr<NodeSharding>> rules_;  // by node id
  std::vector<bool> only_parts_;                      // by node id
  absl::flat_hash_set<Output> reduced_;
  absl::flat_hash_set<Output> taken_partial_;  // by a node in this sweep
  bool expand_ = false;  // whether to replace the node just visited with its decomposition
  bool has_expanded_ = false;
};

// Leaves every value of an unsharded step whole, and removes the user's collectives, which are the
// identity in such a step. Returns whether the graph changed.
bool LeaveWhole(Compilation& c) {
  bool changed = false;
  for (Node* node : c.graph.Nodes()) {
    const OpDef& op = node->op();
    if (op.role == OpRole::kCollective || op.name == kEnsureReplicated || op.name == kLocalPart) {
      ReplaceAllUses(c, node, std::vector<Output>(node->inputs().begin(), node->inputs().end()));
      changed = true;
    }
  }
  if (changed) c.RemoveDeadNodes();
  c.required_inputs.assign(c.graph.id_limit(), {});
  for (const auto& [id, bodies] : c.bodies) {
    for (const auto& body : bodies) {
      body->result_shardings.assign(body->fetches.size(), Replicated());
      changed |= LeaveWhole(*body);
    }
  }
  return changed;
}

}  // namespace

absl::StatusOr<bool> PropagateSharding::Run(Compilation& c) {
  if (!c.shard) return LeaveWhole(c);
  int runs_left = kMaxRuns;
  MF_RETURN_IF_ERROR(Propagation(c, runs_left).Run());
  return true;
}

}  // namespace mirrorflow
