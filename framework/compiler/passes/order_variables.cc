// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/passes/order_variables.h"

#include <algorithm>
#include <map>

#include "absl/container/flat_hash_set.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

// Marks the dependents of `write`, and the nodes that must run after it because collectives start
// in order.
std::vector<char> AfterWriteInOrder(const Compilation& c, Node* write,
                                    const std::vector<char>& after_write) {
  const auto first = std::find_if(c.collectives.begin(), c.collectives.end(),
                                  [&](const Node* node) { return after_write[node->id()] != 0; });
  if (first == c.collectives.end()) return after_write;
  std::vector<Node*> from(first, c.collectives.end());
  from.push_back(write);
  return Dependents(c.graph, from);
}

struct Accesses {
  std::vector<Node*> reads;
  std::vector<Node*> writes;
};

// Returns the nodes that read the memory of `read`: its direct users, and its users through views.
std::vector<Node*> UsersThroughViews(Node* read) {
  std::vector<Node*> users;
  absl::flat_hash_set<Node*> seen;
  std::vector<Node*> pending = {read};
  while (!pending.empty()) {
    Node* node = pending.back();
    pending.pop_back();
    for (const Use& use : node->uses()) {
      if (use.slot == Use::kControl || !seen.insert(use.user).second) continue;
      users.push_back(use.user);
      if (use.user->op().has(kView) && use.slot == 0) pending.push_back(use.user);
    }
  }
  // Sorts the users, because the order of uses is arbitrary, but edges must be added in a fixed
  // order.
  std::sort(users.begin(), users.end(), [](Node* a, Node* b) { return a->id() < b->id(); });
  return users;
}

bool IsFetchedThroughViews(const Compilation& c, Node* read) {
  for (const Output& fetch : c.fetches) {
    if (StripViews(fetch).node == read) return true;
  }
  return false;
}

// Orders the users of `read` before `write`, or marks the read as a copy. `after_write` marks the
// dependents of `write`; `after_write_in_order` also marks the nodes that must follow it because of
// the order of collectives. The new edges end at `write`, so both remain valid.
bool OrderReadBeforeWrite(Compilation& c, Node* read, Node* write,
                          const std::vector<char>& after_write,
                          const std::vector<char>& after_write_in_order) {
  if (after_write[read->id()]) return false;  // the read sees the written value
  bool needs_copy = read->has_attr(kCopyAttr) || IsFetchedThroughViews(c, read);
  const std::vector<Node*> users = UsersThroughViews(read);
  for (Node* user : users) needs_copy |= user != write && after_write_in_order[user->id()];
  if (needs_copy) {
    c.graph.SetAttr(read, kCopyAttr, true);
    c.graph.AddControlEdge(read, write);
    return true;
  }
  for (Node* user : users) {
    const size_t before = write->control_inputs().size();
    if (user != write) c.graph.AddControlEdge(user, write);
    if (write->control_inputs().size() > before) c.reader_edges.emplace_back(user, write);
  }
  return !users.empty();
}

}  // namespace

absl::StatusOr<bool> OrderVariables::Run(Compilation& c) {
  std::map<std::string, Accesses> variables;  // by name, for a deterministic order
  for (Node* node : c.graph.Nodes()) {
    const OpRole role = node->op().role;
    if (role != OpRole::kRead && role != OpRole::kWrite) continue;
    for (const Output& in : node->inputs()) {
      if (in.dtype() != DT_RESOURCE) continue;
      MF_ASSIGN_OR_RETURN(const std::string name, VariableName(in));
      Accesses& accesses = variables[name];
      (role == OpRole::kRead ? accesses.reads : accesses.writes).push_back(node);
    }
  }
  bool changed = false;
  for (auto& [name, accesses] : variables) {
    for (size_t i = 1; i < accesses.writes.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        Node *first = accesses.writes[j], *second = accesses.writes[i];
        if (first == second || Dependents(c.graph, {first})[second->id()]) continue;
        if (Dependents(c.graph, {second})[first->id()]) continue;
        c.graph.AddControlEdge(first, second);
        changed = true;
      }
    }
  }
  for (auto& [name, accesses] : variables) {
    for (Node* write : accesses.writes) {
      if (accesses.reads.empty()) continue;
      const std::vector<char> after_write = Dependents(c.graph, {write});
      const std::vector<char> after_write_in_order = AfterWriteInOrder(c, write, after_write);
      for (Node* read : accesses.reads) {
        changed |= OrderReadBeforeWrite(c, read, write, after_write, after_write_in_order);
      }
    }
  }
  return changed;
}

}  // namespace mirrorflow
