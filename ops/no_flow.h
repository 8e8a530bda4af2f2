// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_NO_FLOW_H_
#define MIRRORFLOW_OPS_NO_FLOW_H_

#include <vector>

#include "framework/graph/graph.h"

namespace mirrorflow {

// The gradient of an op whose result does not change with its floating operands, or is meant to be
// taken for constant: none, for any of them. (An op *without* a gradient is an error on the way.)
inline absl::StatusOr<std::vector<Output>> NoFlow(const GradContext& c) {
  return std::vector<Output>(c.op.num_inputs());
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_NO_FLOW_H_
