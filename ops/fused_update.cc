// SPDX-License-Identifier: Apache-2.0
#include "ops/fused_update.h"

#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"

namespace mirrorflow {

const OpRegistry& FusedUpdateOps() {
  static const OpRegistry* const registry = [] {
    auto* ops = new OpRegistry();
    ops->Define(ops::kGradientDescentOfProduct)
        .Doc("var -= alpha * (aᵀ · b)")
        .Input("var: resource")
        .Input("alpha: float")
        .Input("a: float")
        .Input("b: float")
        .Input("predicate: _gates * bool")
        .Attr("_gates: int >= 0 = 0")
        .Role(OpRole::kWrite)
        .Traits(kStateful)
        .Shape([](ShapeContext&) { return absl::OkStatus(); })
        .Gathers("made after values were given their places")
        .NoGradient("a write has no outputs");
    MF_CHECK(ops->Seal().ok());
    return ops;
  }();
  return *registry;
}

}  // namespace mirrorflow
