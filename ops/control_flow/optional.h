// SPDX-License-Identifier: Apache-2.0
//
// Optional values. TensorFlow's gradient of If uses them for values that only one branch computes.
// Here an optional is a list of at most one tensor (tensor_list.h), which LowerTensorLists lowers
// like any other list. These ops have no builders, because this library's gradient of If needs no
// optionals.
#ifndef MIRRORFLOW_OPS_CONTROL_FLOW_OPTIONAL_H_
#define MIRRORFLOW_OPS_CONTROL_FLOW_OPTIONAL_H_

namespace mirrorflow::ops {

inline constexpr char kOptionalFromValue[] = "OptionalFromValue";
inline constexpr char kOptionalGetValue[] = "OptionalGetValue";
inline constexpr char kOptionalHasValue[] = "OptionalHasValue";
inline constexpr char kOptionalNone[] = "OptionalNone";

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_CONTROL_FLOW_OPTIONAL_H_
