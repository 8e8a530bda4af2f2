// SPDX-License-Identifier: Apache-2.0
//
// Predicates for passes that replace several nodes with one. Such a pass removes the original
// nodes, so it must not match nodes that have control inputs: the order that these impose would be
// lost.
#ifndef MIRRORFLOW_OPS_PASSES_MATCH_H_
#define MIRRORFLOW_OPS_PASSES_MATCH_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "framework/compiler/compilation.h"
#include "ops/binary.h"

namespace mirrorflow {

// Returns whether the value comes from an `op` node without control inputs.
inline bool IsFree(const Output& value, absl::string_view op) {
  return value.node->op().name == op && value.node->control_inputs().empty();
}
inline bool IsFreeSum(const Output& value) {
  return IsFree(value, ops::kAddV2) || IsFree(value, ops::kAdd);
}

// Returns whether the node only gives its input another shape, and has no control inputs.
inline bool IsFreeView(const Node& node) {
  return Computes(node.op()) && node.op().has(kView) && !node.op().has(kStateful) &&
         node.num_outputs() == 1 && node.num_inputs() > 0 && node.control_inputs().empty();
}

// Returns the value of a float constant that has one element and no control inputs; otherwise,
// nullopt.
inline std::optional<float> ConstantOf(const Compilation& c, const Output& value) {
  const Tensor& constant = c.values().at(value).constant;
  if (!value.node->control_inputs().empty() || !constant.has_value() ||
      constant.dtype() != DT_FLOAT || constant.num_elements() != 1) {
    return std::nullopt;
  }
  return constant.flat<float>()[0];
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_PASSES_MATCH_H_
