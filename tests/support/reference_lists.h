// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TESTS_SUPPORT_REFERENCE_LISTS_H_
#define MIRRORFLOW_TESTS_SUPPORT_REFERENCE_LISTS_H_

#include <vector>

#include "tests/oracle/interpreter.h"

namespace mirrorflow {

// Implements TensorFlow's list ops as documented, for the interpreter: a list is a vector of
// tensors. This is independent of the compiler, which lowers lists to tensors.
absl::StatusOr<std::vector<Tensor>> RunListOp(const Node& node, absl::Span<const Tensor> inputs,
                                              ReferenceLists& lists);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_REFERENCE_LISTS_H_
