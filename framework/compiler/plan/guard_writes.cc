// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/plan/guard_writes.h"

#include <algorithm>

#include "framework/core/status.h"

namespace mirrorflow {
namespace {

const OpDef& BarrierOp() {
  static const auto* const op =
      new OpDef{.name = "Barrier", .role = OpRole::kCollective, .traits = kStateful};
  return *op;
}

// Returns the index of the first collective such that no node in `failing` depends on this or a
// later collective. Returns the number of collectives if there is none. Collectives start in the
// same order on every rank, so a node that runs before one collective runs before all later ones.
size_t FindGate(const PlanState& s, const std::vector<Node*>& failing) {
  size_t gate = s.collectives.size();
  for (; gate > 0; --gate) {
    const std::vector<char> after = Dependents(s.graph, {s.collectives[gate - 1]});
    if (std::any_of(failing.begin(), failing.end(), [&](Node* n) { return after[n->id()]; })) break;
  }
  // A branch or loop need not run any of its collectives, so it cannot be the gate.
  while (gate < s.collectives.size() && !IsCollective(*s.collectives[gate])) ++gate;
  return gate;
}

}  // namespace

absl::StatusOr<bool> GuardWrites::Run(PlanState& s) {
  std::vector<Node*> failing, writes;
  for (Node* node : s.graph.Nodes()) {
    if (s.kernel_plans[node->id()].fails_on_data) failing.push_back(node);
    if (node->op().role == OpRole::kWrite) writes.push_back(node);
  }
  if (failing.empty() || writes.empty()) return false;
  const size_t gate = FindGate(s, failing);
  std::vector<Node*> firsts = failing;  // writes that precede any of these are not guarded
  firsts.insert(firsts.end(), s.collectives.begin(),
                s.collectives.begin() + std::min(gate + 1, s.collectives.size()));
  std::erase_if(writes, [&](Node* write) {
    // Does not guard a write that the graph orders first, or a collective, which starts after the
    // gate.
    const std::vector<char> reached = Dependents(s.graph, {write});
    return IsCollective(*write) ||
           std::any_of(firsts.begin(), firsts.end(), [&](Node* n) { return reached[n->id()]; });
  });
  if (gate == s.collectives.size()) {
    if (writes.empty()) return false;
    if (!s.shard) {  // there are no other ranks
      for (Node* node : failing) {
        for (Node* write : writes) s.graph.AddControlEdge(node, write);
      }
      return true;
    }
    MF_ASSIGN_OR_RETURN(Node* const barrier,
                        s.graph.AddNode(s.graph.UniqueName("before_writes"), BarrierOp(), {}, {}));
    s.collectives.push_back(barrier);
    s.kernel_plans.resize(s.graph.id_limit());
    s.shapes.resize(s.graph.id_limit());
  }
  for (Node* node : failing) s.graph.AddControlEdge(node, s.collectives[gate]);
  for (Node* write : writes) s.graph.AddControlEdge(s.collectives[gate], write);
  return true;
}

}  // namespace mirrorflow
