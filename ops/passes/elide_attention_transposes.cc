// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/elide_attention_transposes.h"

#include <algorithm>
#include <vector>

#include "framework/core/status.h"
#include "ops/attention.h"
#include "ops/transpose.h"

namespace mirrorflow {
namespace {

// The permutation that swaps heads and rows. It is its own inverse.
constexpr int64_t kSwap[] = {0, 2, 1, 3};

bool IsSwap(const Compilation& c, const Node& node) {
  if (node.op().name != ops::kTranspose || !node.control_inputs().empty()) return false;
  const auto perm = IntegersOf(c.values().at(node.input(1)).constant);
  return perm.ok() && std::equal(perm->begin(), perm->end(), std::begin(kSwap), std::end(kSwap));
}

// Returns the value in the `heads_inside` layout.
Output Inside(Compilation& c, const Output& value) {
  if (IsSwap(c, *value.node)) return value.node->input(0);
  return ops::Transpose(c.scope(), value, kSwap);
}

// Replaces `value` with `inside`, the same value in the `heads_inside` layout.
absl::Status ReplaceByInside(Compilation& c, const Output& value, const Output& inside) {
  std::vector<Node*> swaps;
  for (const Use& use : value.node->uses()) {
    if (use.slot == 0 && use.user->input(0) == value && IsSwap(c, *use.user)) {
      swaps.push_back(use.user);
    }
  }
  for (Node* swap : swaps) c.ReplaceNode(swap, inside);
  // If the transpose has no other user, dead node removal deletes it.
  const Output outside = ops::Transpose(c.scope(), inside, kSwap);
  MF_RETURN_IF_ERROR(c.graph.status());
  c.ReplaceValue(value, outside);
  return absl::OkStatus();
}

// Returns whether q, k and v, inputs `first` to `first` + 2, are transposes.
bool HasSwappedOperands(const Compilation& c, const Node& node, int first) {
  return !node.attr<bool>("heads_inside") && IsSwap(c, *node.input(first).node) &&
         IsSwap(c, *node.input(first + 1).node) && IsSwap(c, *node.input(first + 2).node);
}

ops::AttentionOptions OptionsOf(const Node& node) {
  ops::AttentionOptions options{.scale = node.attr<float>("scale"),
                                .causal = node.attr<bool>("causal"),
                                .heads_inside = true};
  if (node.attr<int64_t>("num_masks") > 0) options.mask = node.inputs().back();
  return options;
}

absl::Status MoveForward(Compilation& c, Node* node) {
  const Scope scope = c.scope().WithName(node->name()).WithControlInputsOf(*node);
  const auto moved =
      ops::ScaledDotProductAttention(scope, Inside(c, node->input(0)), Inside(c, node->input(1)),
                                     Inside(c, node->input(2)), OptionsOf(*node));
  MF_RETURN_IF_ERROR(c.graph.status());
  c.ReplaceOperation(node, moved.y.node);
  c.ReplaceValue(node->output(1), moved.log_sum);
  return ReplaceByInside(c, node->output(0), moved.y);
}

absl::Status MoveGradient(Compilation& c, Node* node) {
  Output operands[5];  // dy, q, k, v and y
  for (int i = 0; i < 5; ++i) operands[i] = Inside(c, node->input(i));
  const Scope scope = c.scope().WithName(node->name()).WithControlInputsOf(*node);
  const auto moved =
      ops::ScaledDotProductAttentionGrad(scope, operands[0], operands[1], operands[2], operands[3],
                                         operands[4], node->input(5), OptionsOf(*node));
  MF_RETURN_IF_ERROR(c.graph.status());
  c.ReplaceOperation(node, moved.dq.node);
  MF_RETURN_IF_ERROR(ReplaceByInside(c, node->output(0), moved.dq));
  MF_RETURN_IF_ERROR(ReplaceByInside(c, node->output(1), moved.dk));
  return ReplaceByInside(c, node->output(2), moved.dv);
}

}  // namespace

absl::StatusOr<bool> ElideAttentionTransposes::Run(Compilation& c) {
  bool changed = false;
  for (Node* node : c.graph.Nodes()) {
    const std::string& op = node->op().name;
    if (op == ops::kScaledDotProductAttention && HasSwappedOperands(c, *node, 0)) {
      MF_RETURN_IF_ERROR(MoveForward(c, node));
    } else if (op == ops::kScaledDotProductAttentionGrad && HasSwappedOperands(c, *node, 1)) {
      MF_RETURN_IF_ERROR(MoveGradient(c, node));
    } else {
      continue;
    }
    changed = true;
  }
  return changed && c.RemoveDeadNodes();
}

}  // namespace mirrorflow
