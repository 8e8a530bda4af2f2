// SPDX-License-Identifier: Apache-2.0
//
// Optional values, as TensorFlow's gradient of an If has them: what a branch keeps for its gradient
// the other branch has not. Here an optional is a list of one tensor, or of none (tensor_list.h),
// and becomes a tensor with the lists. There are no builders: our own gradient of an If needs none.
#ifndef MIRRORFLOW_OPS_CONTROL_FLOW_OPTIONAL_H_
#define MIRRORFLOW_OPS_CONTROL_FLOW_OPTIONAL_H_

#include "framework/graph/op_registry.h"

namespace mirrorflow {

void RegisterOptional(OpRegistry& ops);

namespace ops {

inline constexpr char kOptionalFromValue[] = "OptionalFromValue";
inline constexpr char kOptionalGetValue[] = "OptionalGetValue";
inline constexpr char kOptionalHasValue[] = "OptionalHasValue";
inline constexpr char kOptionalNone[] = "OptionalNone";

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_CONTROL_FLOW_OPTIONAL_H_
