// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/plan/schedule_nodes.h"

#include <algorithm>
#include <set>
#include <utility>

#include "framework/core/status.h"

namespace mirrorflow {
namespace {

class Scheduler {
 public:
  explicit Scheduler(const PlanState& s)
      : s_(s),
        edges_(s.graph.id_limit()),
        sequence_(edges_.size(), -1),
        last_collective_(edges_.size(), -1),
        pending_(edges_.size(), 0),
        state_(edges_.size(), State::kPending),
        waiting_collectives_(s.collectives.size(), nullptr),
        needed_by_(edges_.size(), -1),
        long_before_(s.collectives.size(), 0) {
    for (Node* node : s.graph.Nodes()) {
      for (const Use& use : node->uses()) edges_[node->id()].push_back(use.user);
    }
  }

  absl::StatusOr<std::vector<Node*>> Run() {
    for (size_t i = 0; i < s_.collectives.size(); ++i) {
      sequence_[s_.collectives[i]->id()] = static_cast<int>(i);
    }
    for (const std::vector<Node*>& users : edges_) {
      for (Node* user : users) ++pending_[user->id()];
    }
    for (Node* node : s_.graph.Nodes()) {
      if (pending_[node->id()] == 0) Release(node);
    }
    FindNeeded();
    while (true) {
      if (next_ < waiting_collectives_.size() && waiting_collectives_[next_] != nullptr) {
        Node* collective = waiting_collectives_[next_];
        long_before_[next_++] = long_done_;
        // A held node may run if a later collective has now started.
        while (!held_.empty() && LaterCollectiveHasStarted(held_.begin()->first)) {
          TakeFromHeld(held_.begin());
        }
        Take(collective);
        FindNeeded();
      } else if (ReleaseNeeded()) {
        continue;
      } else if (!ready_.empty()) {
        Take(s_.graph.node(PopReady()));
      } else if (!held_.empty()) {
        const NodeId id = held_.begin()->second;
        held_.erase(held_.begin());
        Take(s_.graph.node(id));
      } else {
        break;
      }
    }
    if (static_cast<int>(order_.size()) != s_.graph.num_nodes()) {
      return absl::InternalError("the schedule has a cycle");
    }
    return std::move(order_);
  }

 private:
  enum class State : char { kPending, kReady, kTaken };

  // Returns true if a collective later than `before` has started.
  bool LaterCollectiveHasStarted(int before) const { return before + 1 < static_cast<int>(next_); }

  // Makes the node ready, or holds it. Called when all of its predecessors have been scheduled.
  void Release(Node* node) {
    const int own = sequence_[node->id()];
    const int before = last_collective_[node->id()];
    if (own >= 0) {
      waiting_collectives_[own] = node;
    } else if (before < 0) {
      MakeReady(IsSource(*node) ? 0 : 1, node->id());
    } else if (LaterCollectiveHasStarted(before)) {
      MakeReady(0, node->id());
    } else {
      held_.insert({before, node->id()});
    }
  }

  // Returns true if the node takes no time and other nodes can depend on it.
  static bool IsSource(const Node& node) {
    const OpRole role = node.op().role;
    return role == OpRole::kVariable || role == OpRole::kConstant || role == OpRole::kPlaceholder;
  }

  void MakeReady(int kind, NodeId id) {
    ready_.insert({kind, id});
    state_[id] = State::kReady;
    if (IsNeeded(id)) needed_ready_.insert(id);
  }

  // Removes and returns a ready node. Prefers nodes that follow a collective or take no time; next,
  // nodes that the next collective waits for; finally, the smallest id.
  NodeId PopReady() {
    auto it = ready_.begin();
    if (it->first == 1 && !needed_ready_.empty()) it = ready_.find({1, *needed_ready_.begin()});
    const NodeId id = it->second;
    ready_.erase(it);
    needed_ready_.erase(id);
    return id;
  }

  using Held = std::set<std::pair<int, NodeId>>;  // (collective, id)
  Held::iterator TakeFromHeld(Held::iterator it) {
    MakeReady(0, it->second);
    return held_.erase(it);
  }

  void Take(Node* node) {
    order_.push_back(node);
    state_[node->id()] = State::kTaken;
    // A product or convolution gives other replicas time to catch up.
    long_done_ += s_.kernel_plans[node->id()].flops > 0 ? 1 : 0;
    may_release_ = true;
    const int before = std::max(sequence_[node->id()], last_collective_[node->id()]);
    for (Node* user : edges_[node->id()]) {
      last_collective_[user->id()] = std::max(last_collective_[user->id()], before);
      if (--pending_[user->id()] == 0) Release(user);
    }
  }

  bool IsNeeded(NodeId id) const { return needed_by_[id] == static_cast<int>(next_); }

  // Marks the nodes that the next collective waits for. No node is marked twice, because all nodes
  // that a collective waits for are taken before the next collective's turn.
  void FindNeeded() {
    needed_ready_.clear();
    may_release_ = true;
    if (next_ == s_.collectives.size()) return;
    if (sources_.empty()) {
      sources_.resize(edges_.size());
      for (Node* node : s_.graph.Nodes()) {
        for (Node* user : edges_[node->id()]) sources_[user->id()].push_back(node->id());
      }
    }
    std::vector<NodeId> pending = {s_.collectives[next_]->id()};
    while (!pending.empty()) {
      const NodeId id = pending.back();
      pending.pop_back();
      for (const NodeId source : sources_[id]) {
        if (state_[source] == State::kTaken || IsNeeded(source)) continue;
        needed_by_[source] = static_cast<int>(next_);
        if (state_[source] == State::kReady) needed_ready_.insert(source);
        pending.push_back(source);
      }
    }
  }

  // If the next collective is blocked only on earlier collectives, and a product or convolution has
  // run since they started, makes the nodes in between ready. Returns whether it made any ready.
  bool ReleaseNeeded() {
    if (!may_release_ || !needed_ready_.empty() || next_ == s_.collectives.size()) return false;
    may_release_ = false;
    bool released = false;
    for (auto it = held_.begin(); it != held_.end();) {
      if (IsNeeded(it->second) && long_done_ > long_before_[it->first]) {
        it = TakeFromHeld(it);
        released = true;
      } else {
        ++it;
      }
    }
    return released;
  }

  const PlanState& s_;
  std::vector<std::vector<Node*>> edges_;  // by id: successors, once for each edge
  std::vector<int> sequence_;              // by id: index in the order of collectives, or -1
  std::vector<int> last_collective_;       // by id: the last collective before it, or -1

  std::vector<Node*> order_;
  std::vector<int> pending_;                // by id: number of edges from nodes not yet taken
  std::vector<State> state_;                // by id
  std::set<std::pair<int, NodeId>> ready_;  // (0 if after a collective or a source, else 1; id)
  Held held_;
  std::vector<Node*> waiting_collectives_;    // by sequence: collectives that await their turn
  size_t next_ = 0;                           // the next collective to start
  std::vector<std::vector<NodeId>> sources_;  // by id, if there are collectives: predecessors
  std::vector<int> needed_by_;                // by id: the last collective that marked it
  std::set<NodeId> needed_ready_;             // ready nodes that the next collective needs
  bool may_release_ = true;       // set when the schedule changes; cleared by ReleaseNeeded
  int long_done_ = 0;             // how many long-running nodes have been taken
  std::vector<int> long_before_;  // by sequence: long_done_ at its start
};

}  // namespace

absl::StatusOr<bool> ScheduleNodes::Run(PlanState& s) {
  MF_ASSIGN_OR_RETURN(s.order, Scheduler(s).Run());
  return true;
}

}  // namespace mirrorflow
