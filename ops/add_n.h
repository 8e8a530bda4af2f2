// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_ADD_N_H_
#define MIRRORFLOW_OPS_ADD_N_H_

#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace mirrorflow::ops {

// AddN: the sum of one or more tensors of equal shape, added from left to right.
// Dtypes:   half, bfloat16, float, double, int32, int64, uint8.
// Errors:   InvalidArgument if the shapes differ.
// Gradient: dy for each input.
Output AddN(const Scope& scope, absl::Span<const Output> inputs);

// AccumulateNV2: AddN with the operands' shape as an attribute.
Output AccumulateNV2(const Scope& scope, absl::Span<const Output> inputs,
                     const mirrorflow::Shape& shape);

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_ADD_N_H_
