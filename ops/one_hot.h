// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_ONE_HOT_H_
#define MIRRORFLOW_OPS_ONE_HOT_H_

#include <cstdint>

#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterOneHot(OpRegistry& ops);

namespace ops {

struct OneHotOptions {
  int64_t axis = -1;  // where the new dimension goes; -1: last
};

// OneHot: y[…, k, …] = on_value where the index is k, off_value elsewhere.
// Shapes:   a new dimension of size `depth`, a scalar constant; on_value and off_value scalars.
// An index outside [0, depth) has off_value all along.
// Gradient: of on_value and off_value; indices have none.
Output OneHot(const Scope& scope, Output indices, Output depth, Output on_value, Output off_value,
              const OneHotOptions& options = {});

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_ONE_HOT_H_
