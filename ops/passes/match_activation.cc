// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/match_activation.h"

#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/fused_ops.h"
#include "ops/gelu.h"
#include "ops/passes/match.h"
#include "ops/passes/scaled.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

// Returns whether `x` has exactly two uses and is not fetched.
bool IsUsedTwice(const Compilation& c, const Output& x) {
  return x.node->uses().size() == 2 && !c.IsFetched(x);
}

// Returns x if the node computes x * Sigmoid(x).
Output SwishInput(const Compilation& c, const Node& node) {
  if (node.op().name != ops::kMul) return Output();
  for (const int i : {0, 1}) {
    const Output x = node.input(i), sigmoid = node.input(1 - i);
    if (IsFree(sigmoid, ops::kSigmoid) && sigmoid.node->input(0) == x && c.IsUsedOnce(sigmoid) &&
        IsUsedTwice(c, x)) {
      return x;
    }
  }
  return Output();
}

// Returns x if `factor` times `gate` is Relu6(x + 3) / 6.
Output HardGateInput(const Compilation& c, const Output& gate, double factor) {
  for (const Scaled& scaled : ScalingsOf(c, gate)) {
    if (!c.IsUsedOnce(scaled.value)) break;
    if (!IsFree(scaled.value, ops::kRelu6) || !IsNear(6 * factor * scaled.factor, 1)) continue;
    const Output sum = scaled.value.node->input(0);
    if (!IsFreeSum(sum) || !c.IsUsedOnce(sum)) continue;
    for (const int i : {0, 1}) {
      if (ScalarOf(c, sum.node->input(1 - i)) == 3.0) return sum.node->input(i);
    }
  }
  return Output();
}

// Returns x if the node computes x * Relu6(x + 3) / 6. The factor 1/6 may be applied anywhere.
Output HardSwishInput(const Compilation& c, const Node& node) {
  if (node.op().name != ops::kMul && node.op().name != ops::kRealDiv) return Output();
  for (const Scaled& product : ScalingsOf(c, node.output(0))) {
    if (product.value.node != &node && !c.IsUsedOnce(product.value)) break;
    if (product.value.node->op().name != ops::kMul) continue;
    if (product.value.node != &node && !product.value.node->control_inputs().empty()) break;
    for (const int i : {0, 1}) {
      const Output gate = product.value.node->input(1 - i);
      for (const Scaled& x : ScalingsOf(c, product.value.node->input(i))) {
        const double factor = product.factor * x.factor;
        if (IsUsedTwice(c, x.value) && HardGateInput(c, gate, factor) == x.value) return x.value;
        if (!c.IsUsedOnce(x.value)) break;
      }
    }
  }
  return Output();
}

}  // namespace

std::optional<AppliedActivation> MatchActivation(const Compilation& c, const Node& node) {
  if (const Output x = SwishInput(c, node); x.valid()) return AppliedActivation{ops::kSwish, x};
  if (const Output x = HardSwishInput(c, node); x.valid()) {
    return AppliedActivation{ops::kHardSwish, x};
  }
  if (node.num_inputs() != 1 || !c.IsUsedOnce(node.input(0))) return std::nullopt;
  const std::string& op = node.op().name;
  if (op == ops::kGelu) {
    return AppliedActivation{node.attr<bool>("approximate") ? ops::kGeluTanh : ops::kGelu,
                             node.input(0)};
  }
  if (op == ops::kRelu || op == ops::kRelu6 || op == ops::kSigmoid || op == ops::kTanh) {
    return AppliedActivation{op, node.input(0)};
  }
  return std::nullopt;
}

}  // namespace mirrorflow
