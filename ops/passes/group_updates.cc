// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/group_updates.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "framework/core/status.h"
#include "framework/graph/variable_handle.h"
#include "ops/fused_ops.h"

namespace mirrorflow {
namespace {

// The addresses of so many variables, with their slots and gradients, fit into a kernel's
// parameters.
constexpr size_t kMaxUpdates = 64;

bool IsUpdate(const Node& node) {
  return node.op().role == OpRole::kWrite && !node.op().update_gradient.empty();
}

// The variable whose memory the value is; empty if it is none's.
std::string VariableRead(const Output& value) {
  const Output& read = BehindViews(value);
  if (read.node->op().role != OpRole::kRead) return "";
  return VariableName(read.node->input(0)).value_or("");
}

bool IsOfEach(const Node& update, int input) {
  return update.input(input).dtype() == DT_RESOURCE ||
         input == update.input_index(update.op().update_gradient);
}

// Whether they differ in variables and gradients alone.
bool AreAlike(const Node& a, const Node& b) {
  if (&a.op() != &b.op() || a.attrs() != b.attrs() || a.num_inputs() != b.num_inputs())
    return false;
  for (int i = 0; i < a.num_inputs(); ++i) {
    if (!IsOfEach(a, i) && a.input(i) != b.input(i)) return false;
  }
  return true;
}

// What one update reads and writes, or several; names of variables.
struct Accesses {
  std::vector<std::string> read, written;
};

bool Meet(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return absl::c_any_of(a, [&](const std::string& name) { return absl::c_linear_search(b, name); });
}

// Where a node can run between the collectives, of which it comes after one and before another.
struct Window {
  int after = -1;
  int before = std::numeric_limits<int>::max();

  Window And(const Window& other) const {
    return {std::max(after, other.after), std::min(before, other.before)};
  }
};

// By node id.
std::vector<Window> FindWindows(const Compilation& c, const std::vector<Node*>& order) {
  std::vector<Window> windows(c.graph.id_limit());
  std::vector<int> place(c.graph.id_limit(), -1);
  for (size_t i = 0; i < c.collectives.size(); ++i) {
    place[c.collectives[i]->id()] = static_cast<int>(i);
  }
  for (const Node* node : order) {
    const int after = std::max(windows[node->id()].after, place[node->id()]);
    for (const Use& use : node->uses()) {
      int& of_user = windows[use.user->id()].after;
      of_user = std::max(of_user, after);
    }
  }
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    int& before = windows[(*it)->id()].before;
    for (const Use& use : (*it)->uses()) {
      const NodeId user = use.user->id();
      before = std::min(before, place[user] >= 0 ? place[user] : windows[user].before);
    }
  }
  return windows;
}

struct Group {
  std::vector<Node*> updates;
  Accesses accesses;
  Window window = {};

  // Its parts will run in any order.
  bool Admits(const Node& update, const Accesses& own, const Window& its) const {
    const Window both = window.And(its);
    return updates.size() < kMaxUpdates && AreAlike(*updates[0], update) &&
           both.after < both.before && !Meet(own.read, accesses.written) &&
           !Meet(own.written, accesses.read) && !Meet(own.written, accesses.written);
  }
};

class Grouping {
 public:
  Grouping(Compilation& c, const std::vector<Node*>& order)
      : c_(c), windows_(FindWindows(c, order)) {}

  void Add(Node* update) {
    const int bucket = BucketOf(*update);
    if (bucket < 0) return;
    Accesses own;
    for (const Output& input : update->inputs()) {
      const bool is_handle = input.dtype() == DT_RESOURCE;
      const std::string name = is_handle ? VariableName(input).value_or("") : VariableRead(input);
      if (!name.empty()) (is_handle ? own.written : own.read).push_back(name);
    }
    if (Meet(own.read, own.written)) return;
    std::vector<Group>& groups = groups_[bucket];
    const Window& window = windows_[update->id()];
    auto group =
        absl::c_find_if(groups, [&](const Group& g) { return g.Admits(*update, own, window); });
    if (group == groups.end()) group = groups.emplace(groups.end());
    group->updates.push_back(update);
    group->window = group->window.And(window);
    const auto add = [](const std::vector<std::string>& from, std::vector<std::string>* to) {
      to->insert(to->end(), from.begin(), from.end());
    };
    add(own.read, &group->accesses.read);
    add(own.written, &group->accesses.written);
  }

  absl::StatusOr<bool> Join() {
    bool changed = false;
    for (const auto& [bucket, groups] : groups_) {
      for (const Group& group : groups) {
        if (group.updates.size() < 2) continue;
        MF_RETURN_IF_ERROR(Join(group.updates));
        changed = true;
      }
    }
    return changed;
  }

 private:
  int BucketOf(const Node& update) const {
    if (c_.layout == nullptr) return -1;
    const int variable = c_.layout->FindHandle(update.input(0));
    return variable < 0 ? -1 : c_.layout->variables()[variable].bucket;
  }

  absl::Status Join(const std::vector<Node*>& updates) {
    const Node& first = *updates[0];
    const OpDef& op = *FusedOps().Find(ops::MultiTensor(first.op().name));
    std::vector<Output> inputs;
    for (int i = 0; i < first.num_inputs(); ++i) {
      for (const Node* update : updates) {
        inputs.push_back(update->input(i));
        if (!IsOfEach(first, i)) break;
      }
    }
    AttrMap attrs = first.attrs();
    attrs[ops::kNumTensors] = static_cast<int64_t>(updates.size());
    std::vector<Node*> before;
    for (const Node* update : updates) {
      before.insert(before.end(), update->control_inputs().begin(), update->control_inputs().end());
    }
    MF_ASSIGN_OR_RETURN(Node* const all, c_.graph.AddNode(c_.graph.UniqueName(first.name()), op,
                                                          attrs, inputs, before));
    for (Node* update : updates) {
      c_.ReplaceOperation(update, all);
      c_.graph.RemoveNode(update);
    }
    return absl::OkStatus();
  }

  Compilation& c_;
  const std::vector<Window> windows_;
  std::map<int, std::vector<Group>> groups_;  // by bucket
};

}  // namespace

absl::StatusOr<bool> GroupUpdates::Run(Compilation& c) {
  MF_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(c.graph));
  Grouping grouping(c, order);
  // What comes behind some write: an update there might have to wait for another one of its group.
  std::vector<char> behind(c.graph.id_limit(), 0);
  for (Node* node : order) {
    const auto is_behind = [&](const Node* before) {
      return behind[before->id()] || before->op().role == OpRole::kWrite;
    };
    behind[node->id()] =
        absl::c_any_of(node->inputs(), [&](const Output& in) { return is_behind(in.node); }) ||
        absl::c_any_of(node->control_inputs(), is_behind);
    if (IsUpdate(*node) && !IsCollective(*node) && !behind[node->id()] &&
        c.HasKernel(ops::MultiTensor(node->op().name))) {
      grouping.Add(node);
    }
  }
  return grouping.Join();
}

}  // namespace mirrorflow
