// SPDX-License-Identifier: Apache-2.0
//
// Invariants: finds the values that are equal in all runs of a step until a variable is written:
// constants, variables that the step does not write, and what nodes compute only from these. The
// plan computes such a node as a form (framework/runtime/forms.h) and not in each step, and kernels
// can ask for forms of the values.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_INVARIANTS_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_INVARIANTS_H_

#include <vector>

#include "framework/compiler/compilation.h"

namespace mirrorflow {

class Invariants {
 public:
  // Finds none unless Compilation::keeps_forms is true.
  explicit Invariants(const Compilation& c);

  // Returns the node that provides `value`, directly or through views: a constant, a read of a
  // variable, or a node for which IsComputed is true. Returns null if the value is not invariant.
  const Node* SourceOf(Output value) const;

  // Returns whether the plan computes the node as a form.
  bool IsComputed(const Node& node) const {
    return static_cast<size_t>(node.id()) < computed_.size() && computed_[node.id()];
  }

 private:
  bool CanBeComputed(const Node& node) const;
  bool OnlyKernelsRead(const Node& node) const;

  const Compilation& c_;
  std::vector<char> written_;   // by variable
  std::vector<char> computed_;  // by node id
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_INVARIANTS_H_
