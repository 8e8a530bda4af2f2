// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/scheduler.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/functional/function_ref.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

class Scheduler {
 public:
  Scheduler(const Compilation& c, absl::FunctionRef<bool(const Node&)> is_long)
      : c_(c),
        is_long_(is_long),
        edges_(c.graph.id_limit()),
        sequence_(edges_.size(), -1),
        last_collective_(edges_.size(), -1),
        pending_(edges_.size(), 0),
        state_(edges_.size(), State::kPending),
        waiting_collectives_(c.collectives.size(), nullptr),
        needed_by_(edges_.size(), -1),
        long_before_(c.collectives.size(), 0) {
    for (Node* node : c.graph.Nodes()) {
      for (const Use& use : node->uses()) edges_[node->id()].push_back(use.user);
    }
  }

  absl::StatusOr<std::vector<Node*>> Run(const std::vector<Node*>& fails_on_data) {
    OrderFailures(fails_on_data);
    for (size_t i = 0; i < c_.collectives.size(); ++i) {
      sequence_[c_.collectives[i]->id()] = static_cast<int>(i);
    }
    return List();
  }

 private:
  enum class State : char { kPending, kReady, kTaken };

  // By id: whether the node depends on `from`, itself included.
  std::vector<char> Reach(Node* from) const {
    std::vector<char> reached(edges_.size(), 0);
    std::vector<Node*> pending = {from};
    reached[from->id()] = 1;
    while (!pending.empty()) {
      Node* node = pending.back();
      pending.pop_back();
      for (Node* user : edges_[node->id()]) {
        if (reached[user->id()]) continue;
        reached[user->id()] = 1;
        pending.push_back(user);
      }
    }
    return reached;
  }

  // Edges that put nodes which can fail on data before all that cannot be taken back.
  void OrderFailures(const std::vector<Node*>& failing) {
    if (failing.empty()) return;
    std::vector<Node*> writes;
    for (Node* node : c_.graph.Nodes()) {
      if (node->op().role == OpRole::kWrite) writes.push_back(node);
    }
    if (writes.empty()) return;
    // Collectives start in their order on every rank, so what has to run before one of them runs
    // before all later ones. Those up to `last_before` come before a node that can fail.
    int last_before = -1;
    std::vector<std::vector<char>> after(c_.collectives.size());
    for (size_t s = 0; s < c_.collectives.size(); ++s) {
      after[s] = Reach(c_.collectives[s]);
      for (const Node* node : failing) {
        if (after[s][node->id()]) last_before = static_cast<int>(s);
      }
    }
    // A rank that has seen the end of a collective knows that every rank has come to its start: the
    // first one after all nodes that can fail is the gate.
    size_t gate = static_cast<size_t>(last_before + 1);
    // A branch or loop may come to none of its collectives.
    while (gate < c_.collectives.size() && !IsCollective(*c_.collectives[gate])) {
      ++gate;
    }
    const bool has_gate = gate < c_.collectives.size();
    if (has_gate) {
      for (Node* node : failing) edges_[node->id()].push_back(c_.collectives[gate]);
    }
    for (Node* write : writes) {
      const std::vector<char> reached = Reach(write);
      // Leave alone a write that the graph itself wants before such a collective.
      bool is_early = false;
      for (size_t s = 0; s < c_.collectives.size() && s <= gate; ++s) {
        is_early |= reached[c_.collectives[s]->id()] != 0;
      }
      for (const Node* node : failing) is_early |= reached[node->id()] != 0;
      if (is_early) continue;
      if (has_gate) {
        edges_[c_.collectives[gate]->id()].push_back(write);
      } else {
        for (Node* node : failing) edges_[node->id()].push_back(write);
      }
    }
  }

  absl::StatusOr<std::vector<Node*>> List() {
    for (const std::vector<Node*>& users : edges_) {
      for (Node* user : users) ++pending_[user->id()];
    }
    for (Node* node : c_.graph.Nodes()) {
      if (pending_[node->id()] == 0) Release(node);
    }
    FindNeeded();
    while (true) {
      if (next_ < waiting_collectives_.size() && waiting_collectives_[next_] != nullptr) {
        Node* collective = waiting_collectives_[next_];
        long_before_[next_++] = long_done_;
        // What waited for collectives before this one may go now.
        while (!held_.empty() && IsBehindNext(held_.begin()->first)) TakeFromHeld(held_.begin());
        Take(collective);
        FindNeeded();
      } else if (ReleaseNeeded()) {
        continue;
      } else if (!ready_.empty()) {
        Take(c_.graph.node(PopReady()));
      } else if (!held_.empty()) {
        const NodeId id = held_.begin()->second;
        held_.erase(held_.begin());
        Take(c_.graph.node(id));
      } else {
        break;
      }
    }
    if (static_cast<int>(order_.size()) != c_.graph.num_nodes()) {
      return absl::InternalError("the schedule has a cycle");
    }
    return std::move(order_);
  }

  // Whether a later collective than `before` has started.
  bool IsBehindNext(int before) const { return before + 1 < static_cast<int>(next_); }

  // The node waits for no other node any more.
  void Release(Node* node) {
    const int own = sequence_[node->id()];
    const int before = last_collective_[node->id()];
    if (own >= 0) {
      waiting_collectives_[own] = node;
    } else if (before < 0) {
      MakeReady(IsSource(*node) ? 0 : 1, node->id());
    } else if (IsBehindNext(before)) {
      MakeReady(0, node->id());
    } else {
      held_.insert({before, node->id()});
    }
  }

  // Whether the node takes no time, and others may wait for it.
  static bool IsSource(const Node& node) {
    const OpRole role = node.op().role;
    return role == OpRole::kVariable || role == OpRole::kConstant || role == OpRole::kPlaceholder;
  }

  void MakeReady(int kind, NodeId id) {
    ready_.insert({kind, id});
    state_[id] = State::kReady;
    if (IsNeeded(id)) needed_ready_.insert(id);
  }

  // What comes after a collective, or takes no time, then what the next one waits for, then by id.
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
    long_done_ += is_long_(*node) ? 1 : 0;
    may_release_ = true;
    const int before = std::max(sequence_[node->id()], last_collective_[node->id()]);
    for (Node* user : edges_[node->id()]) {
      last_collective_[user->id()] = std::max(last_collective_[user->id()], before);
      if (--pending_[user->id()] == 0) Release(user);
    }
  }

  bool IsNeeded(NodeId id) const { return needed_by_[id] == static_cast<int>(next_); }

  // Marks what the next collective waits for. No node is marked twice: what one collective waited
  // for is taken when the next one's turn comes.
  void FindNeeded() {
    needed_ready_.clear();
    may_release_ = true;
    if (next_ == c_.collectives.size()) return;
    if (sources_.empty()) {
      sources_.resize(edges_.size());
      for (Node* node : c_.graph.Nodes()) {
        for (Node* user : edges_[node->id()]) sources_[user->id()].push_back(node->id());
      }
    }
    std::vector<NodeId> pending = {c_.collectives[next_]->id()};
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

  // If the next collective waits for earlier ones alone, and those have had the time of a product
  // or convolution, lets go what is between them. True if there was anything.
  bool ReleaseNeeded() {
    if (!may_release_ || !needed_ready_.empty() || next_ == c_.collectives.size()) return false;
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

  const Compilation& c_;
  const absl::FunctionRef<bool(const Node&)> is_long_;
  std::vector<std::vector<Node*>> edges_;  // by id: who comes after, once for each edge
  std::vector<int> sequence_;              // by id: place among the collectives, or -1
  std::vector<int> last_collective_;       // by id: the last collective before it, or -1

  std::vector<Node*> order_;
  std::vector<int> pending_;                // by id: edges from nodes that are not taken
  std::vector<State> state_;                // by id
  std::set<std::pair<int, NodeId>> ready_;  // (0: after a collective, or a source, 1: not; id)
  Held held_;
  std::vector<Node*> waiting_collectives_;    // by sequence: those that wait for their turn only
  size_t next_ = 0;                           // the next collective to start
  std::vector<std::vector<NodeId>> sources_;  // by id, if there are collectives: who comes before
  std::vector<int> needed_by_;                // by id: the last collective that it was marked for
  std::set<NodeId> needed_ready_;             // those of ready_ that the next one waits for
  bool may_release_ = true;                   // since ReleaseNeeded, something has changed
  int long_done_ = 0;                         // how many long nodes are taken
  std::vector<int> long_before_;              // by sequence: the same when it started
};

}  // namespace

absl::StatusOr<std::vector<Node*>> ScheduleNodes(const Compilation& c,
                                                 const std::vector<Node*>& fails_on_data,
                                                 absl::FunctionRef<bool(const Node&)> is_long) {
  return Scheduler(c, is_long).Run(fails_on_data);
}

}  // namespace mirrorflow
