// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_ASSERT_H_
#define MIRRORFLOW_OPS_ASSERT_H_

#include <cstdint>

#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace mirrorflow::ops {

struct AssertOptions {
  int64_t summarize = 3;  // how many elements of each tensor to show; if negative, all
};

// Assert: fails the step with InvalidArgument unless `condition`, a bool scalar, is true. The error
// shows `data`, which must contain at least one tensor. The step fails before it writes any
// variable. To make other ops depend on the check, pass the operation to
// Scope::WithControlDependencies, or run it as a target.
// Text:     the data of TensorFlow's Assert may include strings. Tensors here cannot hold strings,
//           so graph readers drop them.
Operation Assert(const Scope& scope, Output condition, absl::Span<const Output> data,
                 const AssertOptions& options = {});

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_ASSERT_H_
