// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/sink_relu_below_max_pool.h"

#include <vector>

#include "framework/core/status.h"
#include "ops/max_pool.h"
#include "ops/unary.h"
#include "ops/unary_grad.h"

namespace mirrorflow {
namespace {

bool Is(const Node& node, absl::string_view op) { return node.op().name == op; }

// A Relu, the pool that follows it, and the gradients of both.
struct Pooled {
  Node* relu = nullptr;
  Node* pool = nullptr;
  std::vector<Node*> relu_grads;  // each takes the output of a pool gradient
};

bool HaveSameWindow(const Node& a, const Node& b) {
  return a.int_list("ksize") == b.int_list("ksize") &&
         a.int_list("strides") == b.int_list("strides") &&
         a.attr<std::string>("padding") == b.attr<std::string>("padding") &&
         a.int_list("explicit_paddings") == b.int_list("explicit_paddings") &&
         a.attr<std::string>("data_format") == b.attr<std::string>("data_format");
}

// Returns whether `node` is ReluGrad(MaxPoolGrad(relu, pool, dy), relu) and the only user of that
// MaxPoolGrad.
bool IsGradient(const Compilation& c, const Pooled& pooled, const Node& node) {
  if (!Is(node, ops::kReluGrad) || node.input(1) != pooled.relu->output(0)) return false;
  const Node& grad = *node.input(0).node;
  return Is(grad, ops::kMaxPoolGrad) && grad.input(0) == pooled.relu->output(0) &&
         grad.input(1) == pooled.pool->output(0) && HaveSameWindow(grad, *pooled.pool) &&
         grad.uses().size() == 1 && grad.control_inputs().empty() &&
         node.control_inputs().empty() && !c.IsFetched(grad.output(0));
}

// Returns whether only a pool and its gradients use `relu`, and if so, fills `pooled`.
bool Find(const Compilation& c, Node* relu, Pooled* pooled) {
  if (!Is(*relu, ops::kRelu) || !relu->control_inputs().empty() || c.IsFetched(relu->output(0))) {
    return false;
  }
  pooled->relu = relu;
  for (const Use& use : relu->uses()) {
    if (!Is(*use.user, ops::kMaxPool) || use.slot != 0) continue;
    if (pooled->pool != nullptr) return false;
    pooled->pool = use.user;
  }
  if (pooled->pool == nullptr) return false;
  for (const Use& use : relu->uses()) {
    if (use.user == pooled->pool && use.slot == 0) continue;
    const Node* const user = use.user;
    if (Is(*user, ops::kMaxPoolGrad) && use.slot == 0 && user->uses().size() == 1 &&
        IsGradient(c, *pooled, *user->uses()[0].user)) {
      continue;
    }
    if (use.slot != 1 || !IsGradient(c, *pooled, *user)) return false;
    pooled->relu_grads.push_back(use.user);
  }
  return true;
}

absl::Status Swap(Compilation& c, const Pooled& pooled) {
  const Output x = pooled.relu->input(0), largest = pooled.pool->output(0);
  const Output relu = ops::Relu(c.scope().WithName(pooled.relu->name()), largest);
  MF_RETURN_IF_ERROR(c.graph.status());
  c.ReplaceValue(largest, relu);
  c.graph.SetInput(relu.node, 0, largest);
  c.graph.SetInput(pooled.pool, 0, x);
  for (Node* relu_grad : pooled.relu_grads) {
    Node* const pool_grad = relu_grad->input(0).node;
    const Output dy =
        ops::ReluGrad(c.scope().WithName(relu_grad->name()), pool_grad->input(2), relu);
    MF_RETURN_IF_ERROR(c.graph.status());
    c.graph.SetInput(pool_grad, 0, x);
    c.graph.SetInput(pool_grad, 1, largest);
    c.graph.SetInput(pool_grad, 2, dy);
    c.ReplaceNode(relu_grad, pool_grad->output(0));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> SinkReluBelowMaxPool::Run(Compilation& c) {
  bool changed = false;
  for (Node* node : c.graph.Nodes()) {
    Pooled pooled;
    if (!Find(c, node, &pooled)) continue;
    MF_RETURN_IF_ERROR(Swap(c, pooled));
    changed = true;
  }
  return changed && c.RemoveDeadNodes();
}

}  // namespace mirrorflow
