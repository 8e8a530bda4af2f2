// SPDX-License-Identifier: Apache-2.0
//
// FunctionalizeControlFlow: makes the functions of branches and loops into bodies that the passes
// after it can work on, and takes variables out of them: what a function reads becomes an argument,
// read before the node; what it writes becomes a result, assigned behind the node. So a body is a
// plain function of values, and the order of reads and writes is a matter of the graph around it.
// The idea is that of XLA's pass of this name.
#ifndef MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_FUNCTIONALIZE_CONTROL_FLOW_H_
#define MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_FUNCTIONALIZE_CONTROL_FLOW_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class FunctionalizeControlFlow final : public Pass {
 public:
  absl::string_view name() const override { return "functionalize_control_flow"; }
  Facts needs() const override { return kPruned; }
  Facts gives() const override { return kBodiesMade; }
  bool enters_bodies() const override { return true; }  // it makes them, from the inside out
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_FUNCTIONALIZE_CONTROL_FLOW_H_
