// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_FRAMEWORK_SESSION_VARIABLE_PART_H_
#define MIRRORFLOW_FRAMEWORK_SESSION_VARIABLE_PART_H_

#include "framework/core/tensor.h"

namespace mirrorflow {

// One rank's part of a variable that is synchronised on read. The variable's value is the sum of
// all parts.
struct VariablePart {
  int rank = 0;
  Tensor value;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_SESSION_VARIABLE_PART_H_
