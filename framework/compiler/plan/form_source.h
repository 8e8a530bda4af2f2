// SPDX-License-Identifier: Apache-2.0
//
// FormSources: finds the operands that a step reads but never writes. Kernels can ask for forms of
// them (framework/runtime/forms.h).
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_FORM_SOURCE_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_FORM_SOURCE_H_

#include <optional>
#include <vector>

#include "framework/compiler/plan/plan_state.h"

namespace mirrorflow {

// Where the value of an operand is stored: in a constant or a variable.
struct FormSource {
  const Node* constant = nullptr;
  int variable = -1;  // in the layout, if `constant` is null

  friend bool operator==(const FormSource&, const FormSource&) = default;
};

class FormSources {
 public:
  explicit FormSources(const PlanState& s);

  // Returns the source of `value`, which is the source's memory itself or a view of it; nullopt if
  // the step writes the memory, or computes the value.
  std::optional<FormSource> Find(Output value) const;

 private:
  const PlanState& s_;
  std::vector<char> written_;  // by variable
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_FORM_SOURCE_H_
