// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_KERNELS_CPU_FIRST_ROW_H_
#define MIRRORFLOW_KERNELS_CPU_FIRST_ROW_H_

#include <cstdint>

#include "framework/runtime/kernel.h"

namespace mirrorflow {

// Turns rows of a replica into rows of the global batch, for error messages: of(params) is the
// global index of row 0 of this replica's share of dimension `dim`.
class FirstRow {
 public:
  FirstRow(const Sharding& sharding, int dim) {
    const Sharded* s = AsSharded(sharding);
    if (s == nullptr || s->dim != dim) return;
    axis_ = s->axis;
    factor_ = s->factor;
  }

  int64_t of(const StepParams& params) const {
    return factor_ == 0 ? 0 : params.first_row[axis_] * factor_;
  }

 private:
  AxisId axis_ = 0;
  int64_t factor_ = 0;  // 0: the rows are not sharded
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_FIRST_ROW_H_
