// SPDX-License-Identifier: Apache-2.0
//
// PlanForms: adds the forms that a plan's kernels read to Plan::forms, and gives each a storage.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_PLAN_FORMS_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_PLAN_FORMS_H_

#include <map>
#include <string>
#include <vector>

#include "framework/compiler/plan/plan_state.h"

namespace mirrorflow {

class PlanForms {
 public:
  explicit PlanForms(PlanState& s) : s_(s) {}

  // Returns the storage of a kernel's form of `value`. REQUIRES: the value is invariant.
  int StorageOf(const Output& value, const OperandForm& form);
  // Returns the storage of the value that a node computes. REQUIRES: Invariants::IsComputed.
  int StorageOf(const Node& node) { return Keep(FormOf(node)); }

 private:
  // Return the form, as an index of Plan::forms. Forms of equal operands with equal keys are one.
  int FormOf(const Node& node);
  int Add(PlannedForm form);

  // Appends the operand that provides `value`, and what identifies it to the form's key.
  void AppendOperand(const Output& value, PlannedForm* form);
  // Makes the session keep the form, and returns its storage.
  int Keep(int form);

  PlanState& s_;
  std::map<std::string, int> by_key_;
  std::map<NodeId, int> by_node_;
  std::vector<int> storages_;  // by form; -1 if not kept
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_PLAN_FORMS_H_
