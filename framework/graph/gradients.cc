// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/gradients.h"

#include <algorithm>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/list_info.h"
#include "framework/graph/shape_inference.h"

namespace mirrorflow {
namespace {

class Accumulator {
 public:
  Accumulator(const OpRegistry& ops, const Scope& scope, absl::Span<const Output> ys,
              absl::Span<const Output> xs, const GradientOptions& options)
      : ops_(ops),
        scope_(scope.SubScope("gradients")),
        ys_(ys),
        xs_(xs),
        options_(options),
        is_x_(xs.begin(), xs.end()),
        stopped_(options.stop_gradients.begin(), options.stop_gradients.end()) {}

  absl::StatusOr<std::vector<Output>> Run() {
    MF_RETURN_IF_ERROR(CheckArguments());
    MarkDependents();
    MF_RETURN_IF_ERROR(AddInitialGradients());
    CountPending();
    MF_RETURN_IF_ERROR(Propagate());
    std::vector<Output> results;
    for (const Output& x : xs_) {
      MF_ASSIGN_OR_RETURN(results.emplace_back(), Sum(x));
    }
    return results;
  }

 private:
  absl::Status CheckArguments() const {
    MF_RETURN_IF_ERROR(scope_.status());
    const struct {
      const char* name;
      absl::Span<const Output> values;
      bool may_be_invalid;
    } all[] = {{"xs", xs_, false},
               {"ys", ys_, false},
               {"stop_gradients", options_.stop_gradients, false},
               {"grad_ys", options_.grad_ys, true}};
    for (const auto& [name, values, may_be_invalid] : all) {
      for (size_t i = 0; i < values.size(); ++i) {
        if (values[i].valid()) {
          MF_RETURN_IF_ERROR(Annotate(scope_.graph().CheckOwns(values[i]), "Gradients"));
        } else if (!may_be_invalid) {
          return absl::InvalidArgumentError(
              absl::StrCat("Gradients: ", name, "[", i, "] is an invalid output"));
        }
      }
    }
    if (!options_.grad_ys.empty() && options_.grad_ys.size() != ys_.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("Gradients: expected one grad_y for each of the ", ys_.size(), " ys, got ",
                       options_.grad_ys.size()));
    }
    for (size_t i = 0; i < ys_.size(); ++i) {
      const Output& y = ys_[i];
      if (!IsFloating(y.dtype()) && y.dtype() != DT_VARIANT) {
        return absl::InvalidArgumentError(absl::StrCat("Gradients: y ", y.ToString(),
                                                       " must have a floating-point dtype, got ",
                                                       DataTypeName(y.dtype())));
      }
      if (options_.grad_ys.empty() || !options_.grad_ys[i].valid()) continue;
      const Output& dy = options_.grad_ys[i];
      if (dy.dtype() != y.dtype() || !scope_.shape(dy).IsCompatibleWith(scope_.shape(y))) {
        return absl::InvalidArgumentError(absl::StrCat(
            "Gradients: grad_y of ", y.ToString(), " must have dtype ", DataTypeName(y.dtype()),
            " and shape ", scope_.shape(y).ToString(), ", got dtype ", DataTypeName(dy.dtype()),
            " and shape ", scope_.shape(dy).ToString()));
      }
    }
    return absl::OkStatus();
  }
  // Returns true if the gradient of `value` propagates to the inputs of its node.
  bool Flows(const Output& value) const {
    return TakesGradient(scope_.graph(), value) && !stopped_.contains(value) &&
           depends_.contains(value.node);
  }
  // Returns true if the gradient of `value` is needed: it propagates, or `value` is an x.
  bool IsWanted(const Output& value) const {
    return Flows(value) || (is_x_.contains(value) && TakesGradient(scope_.graph(), value));
  }

  void MarkDependents() {
    std::vector<Node*> to_visit;
    auto mark_users = [&](Node* node, auto carries) {
      for (const Use& use : node->uses()) {
        if (use.slot == Use::kControl || !carries(use.user->input(use.slot))) continue;
        if (depends_.insert(use.user).second) to_visit.push_back(use.user);
      }
    };
    for (const Output& x : xs_) {
      if (!TakesGradient(scope_.graph(), x)) continue;
      mark_users(x.node, [&](const Output& value) { return value == x; });
    }
    while (!to_visit.empty()) {
      Node* node = to_visit.back();
      to_visit.pop_back();
      mark_users(node, [&](const Output& value) { return Flows(value); });
    }
  }

  absl::Status AddInitialGradients() {
    for (size_t i = 0; i < ys_.size(); ++i) {
      if (!IsWanted(ys_[i])) continue;
      Output dy = options_.grad_ys.empty() ? Output() : options_.grad_ys[i];
      if (!dy.valid()) {
        MF_ASSIGN_OR_RETURN(const OpDef* ones_like, OpOfRole(OpRole::kOnesLike, "creates ones"));
        dy = scope_.WithName(absl::StrCat("grad_ys_", i)).Build(*ones_like).Input(ys_[i]).One();
        MF_RETURN_IF_ERROR(scope_.status());
      }
      gradients_[ys_[i]].push_back(dy);
    }
    return absl::OkStatus();
  }

  void CountPending() {
    std::vector<Node*> to_visit;
    for (const Output& y : ys_) {
      if (IsWanted(y) && pending_.emplace(y.node, 0).second) to_visit.push_back(y.node);
    }
    while (!to_visit.empty()) {
      Node* node = to_visit.back();
      to_visit.pop_back();
      if (!depends_.contains(node)) continue;
      for (const Output& in : node->inputs()) {
        if (!IsWanted(in)) continue;
        const auto [it, first] = pending_.emplace(in.node, 0);
        ++it->second;
        if (first) to_visit.push_back(in.node);
      }
    }
  }

  // Processes each node once all its uses are done, the most recently created node first.
  absl::Status Propagate() {
    const auto earlier = [](const Node* a, const Node* b) { return a->id() < b->id(); };
    std::vector<Node*> ready;
    for (const auto& [node, count] : pending_) {
      if (count == 0) ready.push_back(node);
    }
    std::make_heap(ready.begin(), ready.end(), earlier);
    size_t done = 0;
    while (!ready.empty()) {
      std::pop_heap(ready.begin(), ready.end(), earlier);
      Node* node = ready.back();
      ready.pop_back();
      ++done;
      // Also sums the gradients of an x that do not propagate further, so that nodes are always
      // created in the same order.
      for (int i = 0; i < node->num_outputs(); ++i)
        MF_RETURN_IF_ERROR(Sum(node->output(i)).status());
      if (!depends_.contains(node)) continue;
      MF_RETURN_IF_ERROR(PropagateThrough(node));
      for (const Output& in : node->inputs()) {
        if (!IsWanted(in) || --pending_[in.node] > 0) continue;
        ready.push_back(in.node);
        std::push_heap(ready.begin(), ready.end(), earlier);
      }
    }
    if (done != pending_.size()) {
      return absl::InvalidArgumentError("Gradients: the graph has a cycle between xs and ys");
    }
    return absl::OkStatus();
  }

  absl::Status PropagateThrough(Node* node) {
    std::vector<Output> dy(node->num_outputs());
    bool any = false;
    for (int i = 0; i < node->num_outputs(); ++i) {
      if (!Flows(node->output(i))) continue;
      MF_ASSIGN_OR_RETURN(dy[i], Sum(node->output(i)));
      any = any || dy[i].valid();
    }
    if (!any) return absl::OkStatus();
    MF_ASSIGN_OR_RETURN(const std::vector<Output> dx, InputGradients(*node, dy));
    for (int i = 0; i < node->num_inputs(); ++i) {
      if (!dx[i].valid() || !IsWanted(node->input(i))) continue;
      MF_RETURN_IF_ERROR(CheckGradient(*node, i, dx[i]));
      gradients_[node->input(i)].push_back(dx[i]);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Output>> InputGradients(const Node& node,
                                                     absl::Span<const Output> dy) const {
    // The gradient of a read is the gradient of its handle.
    if (node.op().role == OpRole::kRead) return std::vector<Output>(dy.begin(), dy.end());
    if (node.op().gradient == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Gradients: ", OpAndName(node),
          " is on the path from an x to a y but has no gradient: ", node.op().no_gradient_reason));
    }
    const Scope scope = scope_.SubScope(absl::StrCat(node.name(), "_grad"));
    absl::StatusOr<std::vector<Output>> dx = node.op().gradient({scope, node, dy});
    const absl::Status status = dx.ok() ? scope.status() : dx.status();
    if (!status.ok()) return Annotate(status, absl::StrCat("gradient of ", OpAndName(node)));
    if (static_cast<int>(dx->size()) != node.num_inputs()) {
      return absl::InternalError(absl::StrCat("gradient of ", OpAndName(node), ": expected ",
                                              node.num_inputs(), " gradients, got ", dx->size()));
    }
    return dx;
  }

  absl::Status CheckGradient(const Node& node, int i, const Output& gradient) const {
    const Output& in = node.input(i);
    if (in.dtype() == DT_RESOURCE) return absl::OkStatus();
    if (gradient.dtype() == in.dtype() &&
        scope_.shape(gradient).IsCompatibleWith(scope_.shape(in))) {
      return absl::OkStatus();
    }
    return absl::InternalError(absl::StrCat(
        "gradient of ", OpAndName(node), ": for input ", i, " expected ", DataTypeName(in.dtype()),
        " of shape ", scope_.shape(in).ToString(), ", got ", DataTypeName(gradient.dtype()),
        " of shape ", scope_.shape(gradient).ToString()));
  }

  // Replaces the contributions so far with their sum, and returns it.
  absl::StatusOr<Output> Sum(const Output& value) {
    const auto it = gradients_.find(value);
    if (it == gradients_.end()) return Output();
    std::vector<Output>& parts = it->second;
    if (parts.size() > 1) {
      MF_ASSIGN_OR_RETURN(const OpDef* add_all, OpOfRole(OpRole::kAddAll, "adds tensors"));
      const std::string name = absl::StrCat(value.node->name(), "_grad/", add_all->name);
      const Output sum = scope_.WithName(name).Build(*add_all).InputList(parts).One();
      MF_RETURN_IF_ERROR(scope_.status());
      parts = {sum};
    }
    return parts[0];
  }

  absl::StatusOr<const OpDef*> OpOfRole(OpRole role, absl::string_view what) const {
    if (const OpDef* op = ops_.FindRole(role)) return op;
    return absl::FailedPreconditionError(
        absl::StrCat("Gradients: the registry has no op that ", what));
  }

  const OpRegistry& ops_;
  const Scope scope_;
  const absl::Span<const Output> ys_;
  const absl::Span<const Output> xs_;
  const GradientOptions& options_;
  const absl::flat_hash_set<Output> is_x_;
  const absl::flat_hash_set<Output> stopped_;

  absl::flat_hash_set<Node*> depends_;  // nodes that depend on an x
  // For each node on a path to ys, the number of uses whose gradients are still outstanding.
  absl::flat_hash_map<Node*, int> pending_;
  absl::flat_hash_map<Output, std::vector<Output>> gradients_;  // contributions accumulated so far
};

}  // namespace

bool TakesGradient(const Graph& graph, const Output& value) {
  if (value.dtype() != DT_VARIANT) return IsFloating(value.dtype()) || value.dtype() == DT_RESOURCE;
  const DataType element = ListInfo::From(graph.values().at(value)).dtype;
  return element == DT_INVALID ||
         IsFloating(element);  // the dtype of a branch's results may be unknown
}

absl::StatusOr<std::vector<Output>> Gradients(const OpRegistry& ops, const Scope& scope,
                                              absl::Span<const Output> ys,
                                              absl::Span<const Output> xs,
                                              const GradientOptions& options) {
  return Accumulator(ops, scope, ys, xs, options).Run();
}

}  // namespace mirrorflow
