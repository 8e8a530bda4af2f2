// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/scheduler.h"

#include <algorithm>
#include <set>
#include <utility>

#include "framework/core/status.h"

namespace mirrorflow {
namespace {

class Scheduler {
 public:
  explicit Scheduler(const Compilation& c) : c_(c), edges_(c.graph.id_limit()) {
    for (Node* node : c.graph.Nodes()) {
      for (const Use& use : node->uses()) edges_[node->id()].push_back(use.user);
    }
  }

  absl::StatusOr<std::vector<Node*>> Run(const std::vector<Node*>& fails_on_data) {
    OrderFailures(fails_on_data);
    last_collective_.assign(edges_.size(), -1);
    sequence_.assign(edges_.size(), -1);
    for (size_t i = 0; i < c_.collectives.size(); ++i) {
      sequence_[c_.collectives[i]->id()] = static_cast<int>(i);
    }
    return List();
  }

 private:
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
    while (gate < c_.collectives.size() && c_.collectives[gate]->op().role != OpRole::kCollective) {
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
    std::vector<int> pending(edges_.size(), 0);
    for (const std::vector<Node*>& users : edges_) {
      for (Node* user : users) ++pending[user->id()];
    }
    // Ready nodes, by what they wait for: nothing more, or a later collective to be started.
    using Key = std::pair<int, NodeId>;  // class (0: after a collective), id
    std::set<Key> ready;
    std::set<std::pair<int, NodeId>> held;  // (collective, id)
    std::vector<Node*> ready_collectives(c_.collectives.size(), nullptr);
    size_t next_collective = 0;
    std::vector<Node*> order;
    order.reserve(c_.graph.num_nodes());

    auto make_ready = [&](Node* node) {
      const int own = sequence_[node->id()];
      const int before = last_collective_[node->id()];
      if (own >= 0) {
        ready_collectives[own] = node;
      } else if (before < 0) {
        ready.insert({1, node->id()});
      } else if (before + 1 < static_cast<int>(next_collective)) {
        ready.insert({0, node->id()});
      } else {
        held.insert({before, node->id()});
      }
    };
    auto take = [&](Node* node) {
      order.push_back(node);
      const int own = sequence_[node->id()];
      const int before = std::max(own, last_collective_[node->id()]);
      for (Node* user : edges_[node->id()]) {
        last_collective_[user->id()] = std::max(last_collective_[user->id()], before);
        if (--pending[user->id()] == 0) make_ready(user);
      }
    };

    for (Node* node : c_.graph.Nodes()) {
      if (pending[node->id()] == 0) make_ready(node);
    }
    while (true) {
      if (next_collective < ready_collectives.size() &&
          ready_collectives[next_collective] != nullptr) {
        Node* collective = ready_collectives[next_collective++];
        // What waited for collectives before this one may go now.
        while (!held.empty() && held.begin()->first + 1 < static_cast<int>(next_collective)) {
          ready.insert({0, held.begin()->second});
          held.erase(held.begin());
        }
        take(collective);
      } else if (!ready.empty()) {
        const NodeId id = ready.begin()->second;
        ready.erase(ready.begin());
        take(c_.graph.node(id));
      } else if (!held.empty()) {
        const NodeId id = held.begin()->second;
        held.erase(held.begin());
        take(c_.graph.node(id));
      } else {
        break;
      }
    }
    if (static_cast<int>(order.size()) != c_.graph.num_nodes()) {
      return absl::InternalError("the schedule has a cycle");
    }
    return order;
  }

  const Compilation& c_;
  std::vector<std::vector<Node*>> edges_;  // by id: who comes after, once for each edge
  std::vector<int> sequence_;              // by id: place among the collectives, or -1
  std::vector<int> last_collective_;       // by id: the last collective before it, or -1
};

}  // namespace

absl::StatusOr<std::vector<Node*>> ScheduleNodes(const Compilation& c,
                                                 const std::vector<Node*>& fails_on_data) {
  return Scheduler(c).Run(fails_on_data);
}

}  // namespace mirrorflow
