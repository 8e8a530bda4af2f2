// SPDX-License-Identifier: Apache-2.0
//
// Ops that only the compiler makes: an optimizer's update together with what computes its gradient.
#ifndef MIRRORFLOW_OPS_FUSED_UPDATE_H_
#define MIRRORFLOW_OPS_FUSED_UPDATE_H_

#include "framework/graph/op_registry.h"

namespace mirrorflow {

namespace ops {
// var [m,n] -= alpha * (aᵀ [m,k] · b [k,n])
inline constexpr char kGradientDescentOfProduct[] = "GradientDescentOfProduct";
}  // namespace ops

// A registry of just these ops. They are not in graphs that are read or written.
const OpRegistry& FusedUpdateOps();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_FUSED_UPDATE_H_
