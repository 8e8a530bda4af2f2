// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_ASSERT_H_
#define MIRRORFLOW_OPS_ASSERT_H_

#include <cstdint>

#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterAssert(OpRegistry& ops);

namespace ops {

struct AssertOptions {
  int64_t summarize = 3;  // elements of each tensor to show; all of them if negative
};

// Assert: fails the step unless `condition`, a scalar, is true; the error shows `data`, at least
// one tensor. It does so before anything is written to a variable. Text:     an Assert of
// TensorFlow has text among its data. No tensor here holds any, so it is left
//           out where the graph is read.
Operation Assert(const Scope& scope, Output condition, absl::Span<const Output> data,
                 const AssertOptions& options = {});

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_ASSERT_H_
