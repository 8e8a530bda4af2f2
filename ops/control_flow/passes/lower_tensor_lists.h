// SPDX-License-Identifier: Apache-2.0
//
// LowerTensorLists: replaces each list of tensors, including lists that pass through branches and
// loops, with a tensor that has one row per element, and a length. Afterwards no value is a
// variant. The row shape and the maximum length of each list are already known (InferAndFold,
// LoopBound), so every list has its final capacity from the start, and setting or pushing an
// element writes a single row.
#ifndef MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_LOWER_TENSOR_LISTS_H_
#define MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_LOWER_TENSOR_LISTS_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class LowerTensorLists final : public Pass {
 public:
  absl::string_view name() const override { return "lower_tensor_lists"; }
  Facts needs() const override { return kPruned | kShapesKnown; }
  Facts gives() const override { return kListsLowered; }
  bool enters_bodies() const override { return true; }  // given the lists of the enclosing node
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_LOWER_TENSOR_LISTS_H_
