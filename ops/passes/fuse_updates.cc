// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/fuse_updates.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "framework/core/status.h"
#include "framework/graph/variable_handle.h"
#include "ops/fused_ops.h"
#include "ops/matmul.h"

namespace mirrorflow {
namespace {

bool IsUpdate(const Node& node) {
  return node.op().role == OpRole::kWrite && !node.op().update_gradient.empty();
}

int GradientIndex(const Node& update) { return update.input_index(update.op().update_gradient); }

// --- an update and the product that computes its gradient ---

// An operand with at most this many elements fits into a core's cache.
constexpr int64_t kMaxOperandElements = int64_t{1} << 17;
// Limits that apply because a gradient tile is computed from all rows at once and consists of whole
// vectors.
constexpr int64_t kMaxRows = 1024;
constexpr int64_t kMinColumns = 32;
// Smaller gradients stay in cache without fusion.
constexpr int64_t kMinGradientElements = int64_t{1} << 13;
// With the fused update, ranks read one another's rows instead of one another's gradients. That
// pays off only if the gradients are larger than the rows by this factor.
constexpr int64_t kMinSavingFactor = 2;

// Returns whether the value shares the memory of a variable, which the update would overwrite.
bool IsVariable(const Output& value) { return StripViews(value).node->op().role == OpRole::kRead; }

// Returns the sharding of both operands' rows, or null if they are not sharded, or sharded
// differently.
const Sharded* RowsOfBoth(const Compilation& c, const Node& product) {
  const Sharded* a = AsSharded(c.shardings.at(product.input(0)));
  const Sharded* b = AsSharded(c.shardings.at(product.input(1)));
  return a != nullptr && b != nullptr && *a == *b && a->dim == 0 ? a : nullptr;
}

// Returns whether it is faster to send both operands' rows to all domains, so that each computes
// the whole product, than to reduce the gradient over the domains. Counts the bytes that one domain
// receives.
bool RowsAreFaster(const World& world, int64_t elements, int64_t rows, int64_t row_elements) {
  // The assumed speed of a core, roughly that of AVX2. It is a constant, so that all workers make
  // the same choice.
  constexpr double kFlopsPerNs = 80;
  const double others = 1.0 - 1.0 / world.num_domains;
  const double gradient_bytes =
      static_cast<double>(elements) * sizeof(float) * (world.num_domains == 2 ? 1.0 : 2 * others);
  const double row_bytes = static_cast<double>(row_elements) * sizeof(float) * others;
  const double cores = static_cast<double>(world.size) / world.num_domains;
  const double more_flops =
      2.0 * static_cast<double>(elements) * static_cast<double>(rows) * others;
  return more_flops / kFlopsPerNs / cores < (gradient_bytes - row_bytes) * world.link.byte_ns;
}

// Returns whether the gradient of `update` is a product that has no other users and that a kernel
// can compute within the update.
bool IsByProduct(const Compilation& c, const Node& update) {
  if (!IsUpdate(update) || !c.HasKernel(ops::OfProduct(update.op().name))) return false;
  const Output gradient = update.input(GradientIndex(update));
  const Node& product = *gradient.node;
  if (product.op().name != ops::kMatMul || gradient.dtype() != DT_FLOAT ||
      !product.attr<bool>("transpose_a") || product.attr<bool>("transpose_b") ||
      product.uses().size() != 1 || IsVariable(product.input(0)) || IsVariable(product.input(1)) ||
      c.IsFetched(gradient)) {
    return false;
  }
  const Shape& a = c.values().shape(product.input(0));
  const Shape& b = c.values().shape(product.input(1));
  const int64_t elements = c.values().shape(gradient).num_elements();
  if (a.dim(0) > kMaxRows || b.dim(1) < kMinColumns || elements < kMinGradientElements) {
    return false;
  }
  if (!IsCollective(update)) return b.num_elements() <= kMaxOperandElements;
  if (RowsOfBoth(c, product) == nullptr || update.attr<std::string>(kReductionAttr) != "sum") {
    return false;
  }
  const int64_t row_elements = a.num_elements() + b.num_elements();
  return c.world.one_domain() ? kMinSavingFactor * row_elements <= elements
                              : RowsAreFaster(c.world, elements, a.dim(0), row_elements);
}

absl::Status FuseProduct(Compilation& c, Node* update) {
  const int gradient = GradientIndex(*update);
  Node* const product = update->input(gradient).node;
  MF_ASSIGN_OR_RETURN(const OpDef* op, FusedOps().Lookup(ops::OfProduct(update->op().name)));
  std::vector<Output> inputs(update->inputs().begin(), update->inputs().end());
  inputs[gradient] = product->input(0);
  inputs.push_back(product->input(1));
  std::vector<Node*> before(update->control_inputs().begin(), update->control_inputs().end());
  before.insert(before.end(), product->control_inputs().begin(), product->control_inputs().end());
  MF_ASSIGN_OR_RETURN(Node* const fused, c.graph.AddNode(c.graph.UniqueName(update->name()), *op,
                                                         update->attrs(), inputs, before));
  if (IsCollective(*update)) {
    const Sharded rows = *RowsOfBoth(c, *product);
    c.graph.SetAttr(fused, kAxisAttr, static_cast<int64_t>(rows.axis));
    c.graph.SetAttr(fused, kFactorAttr, rows.factor);
  }
  c.ReplaceOperation(update, fused);
  c.graph.RemoveNode(update);
  c.graph.RemoveNode(product);
  return absl::OkStatus();
}

absl::StatusOr<bool> FuseProducts(Compilation& c) {
  std::vector<Node*> updates;
  for (Node* node : c.graph.Nodes()) {
    if (IsByProduct(c, *node)) updates.push_back(node);
  }
  for (Node* update : updates) MF_RETURN_IF_ERROR(FuseProduct(c, update));
  return !updates.empty();
}

// --- the updates of a bucket ---

// The maximum number of variables whose addresses, with those of their slots and gradients, fit
// into the kernel parameters.
constexpr size_t kMaxUpdates = 64;

// Returns the name of the variable that the value shares memory with, or an empty string if it
// shares no variable's memory.
std::string VariableRead(const Output& value) {
  const Output& read = StripViews(value);
  if (read.node->op().role != OpRole::kRead) return "";
  return VariableName(read.node->input(0)).value_or("");
}

bool IsOfEach(const Node& update, int input) {
  return update.input(input).dtype() == DT_RESOURCE || input == GradientIndex(update);
}

// Returns whether the updates differ only in their variables and gradients.
bool AreAlike(const Node& a, const Node& b) {
  if (&a.op() != &b.op() || a.attrs() != b.attrs() || a.num_inputs() != b.num_inputs())
    return false;
  for (int i = 0; i < a.num_inputs(); ++i) {
    if (!IsOfEach(a, i) && a.input(i) != b.input(i)) return false;
  }
  return true;
}

// The names of the variables that one or more updates read and write.
struct Accesses {
  std::vector<std::string> read, written;
};

bool Meet(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return absl::c_any_of(a, [&](const std::string& name) { return absl::c_linear_search(b, name); });
}

// The interval, in the order of collectives, where a node can run: after one collective and before
// another.
struct Window {
  int after = -1;
  int before = std::numeric_limits<int>::max();

  Window And(const Window& other) const {
    return {std::max(after, other.after), std::min(before, other.before)};
  }
};

// Returns each node's window, indexed by node id.
std::vector<Window> FindWindows(const Compilation& c, const std::vector<Node*>& order) {
  std::vector<Window> windows(c.graph.id_limit());
  std::vector<int> position(c.graph.id_limit(), -1);
  for (size_t i = 0; i < c.collectives.size(); ++i) {
    position[c.collectives[i]->id()] = static_cast<int>(i);
  }
  for (const Node* node : order) {
    const int after = std::max(windows[node->id()].after, position[node->id()]);
    for (const Use& use : node->uses()) {
      int& of_user = windows[use.user->id()].after;
      of_user = std::max(of_user, after);
    }
  }
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    int& before = windows[(*it)->id()].before;
    for (const Use& use : (*it)->uses()) {
      const NodeId user = use.user->id();
      before = std::min(before, position[user] >= 0 ? position[user] : windows[user].before);
    }
  }
  return windows;
}

struct Group {
  std::vector<Node*> updates;
  Accesses accesses;
  Window window = {};

  // Returns whether the update can join the group. A group's updates run in any order, so they must
  // not depend on one another.
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

absl::StatusOr<bool> JoinBuckets(Compilation& c) {
  const auto may_join = [&](const Node* node) {
    return IsUpdate(*node) && !IsCollective(*node) &&
           c.HasKernel(ops::MultiTensor(node->op().name));
  };
  if (absl::c_count_if(c.graph.Nodes(), may_join) < 2) return false;
  MF_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(c.graph));
  Grouping grouping(c, order);
  // Marks nodes that follow a write: an update that follows a write might have to wait for another
  // update in its group.
  std::vector<char> after_write(c.graph.id_limit(), 0);
  for (Node* node : order) {
    const auto is_write_or_after = [&](const Node* before) {
      return after_write[before->id()] || before->op().role == OpRole::kWrite;
    };
    after_write[node->id()] =
        absl::c_any_of(node->inputs(),
                       [&](const Output& in) { return is_write_or_after(in.node); }) ||
        absl::c_any_of(node->control_inputs(), is_write_or_after);
    if (!after_write[node->id()] && may_join(node)) grouping.Add(node);
  }
  return grouping.Join();
}

}  // namespace

absl::StatusOr<bool> FuseUpdates::Run(Compilation& c) {
  MF_ASSIGN_OR_RETURN(const bool fused, FuseProducts(c));
  MF_ASSIGN_OR_RETURN(const bool joined, JoinBuckets(c));
  return fused || joined;
}

}  // namespace mirrorflow
