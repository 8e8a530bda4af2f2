// SPDX-License-Identifier: Apache-2.0
//
// FunctionalizeControlFlow: turns the functions of branches and loops into bodies that later passes
// can transform, and lifts variables out of them. A variable that a function reads becomes an
// argument, which is read before the node; a variable that it writes becomes a result, which is
// assigned after the node. A body is then a pure function of values, and the order of reads and
// writes concerns only the enclosing graph. The idea comes from XLA's pass of the same name.
#ifndef MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_FUNCTIONALIZE_CONTROL_FLOW_H_
#define MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_FUNCTIONALIZE_CONTROL_FLOW_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class FunctionalizeControlFlow final : public Pass {
 public:
  absl::string_view name() const override { return "functionalize_control_flow"; }
  Facts needs() const override { return kPruned; }
  Facts gives() const override { return kBodiesMade; }
  bool enters_bodies() const override { return true; }  // it creates the bodies, innermost first
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_FUNCTIONALIZE_CONTROL_FLOW_H_
