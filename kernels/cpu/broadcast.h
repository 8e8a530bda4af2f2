// SPDX-License-Identifier: Apache-2.0
//
// BroadcastLoop iterates over the operands of a broadcast, run by run. A run is contiguous in the
// output; each operand either advances along the run or stays at one element.
//
// Adjacent dimensions where the same operands move are merged. Equal shapes, a scalar or a row
// vector therefore give one or a few long runs.
#ifndef MIRRORFLOW_KERNELS_CPU_BROADCAST_H_
#define MIRRORFLOW_KERNELS_CPU_BROADCAST_H_

#include <array>
#include <cstdint>

#include "framework/core/shape.h"

namespace mirrorflow {

template <int kOperands>
class BroadcastLoop {
 public:
  using Offsets = std::array<int64_t, kOperands>;

  // Requires that the operands' shapes broadcast to `out`.
  BroadcastLoop(const Shape& out, const std::array<const Shape*, kOperands>& operands) {
    std::array<int64_t, kOperands> size;  // elements of each operand in the dimensions so far
    size.fill(1);
    for (int d = out.rank() - 1; d >= 0; --d) {
      const int64_t n = out.dim(d);
      if (n == 0) empty_ = true;
      if (n == 1) continue;
      Dim dim{.size = n};
      bool same_as_last = num_dims_ > 0;
      for (int k = 0; k < kOperands; ++k) {
        const int i = d - (out.rank() - operands[k]->rank());
        const bool moves = i >= 0 && operands[k]->dim(i) != 1;
        dim.stride[k] = moves ? size[k] : 0;
        if (moves) size[k] *= n;
        same_as_last = same_as_last && moves == (dims_[num_dims_ - 1].stride[k] != 0);
      }
      if (same_as_last) {
        dims_[num_dims_ - 1].size *= n;
      } else {
        dims_[num_dims_++] = dim;
      }
    }
    if (num_dims_ == 0) dims_[num_dims_++] = Dim{.size = 1};
  }

  int64_t run_length() const { return dims_[0].size; }
  bool moves(int operand) const { return dims_[0].stride[operand] != 0; }

  // Calls run(offset in the output, offsets in the operands) for each run.
  template <typename Run>
  void ForEachRun(Run run) const {
    if (empty_) return;
    std::array<int64_t, kMaxRank> index = {};
    Offsets at = {};
    for (int64_t out = 0;; out += dims_[0].size) {
      run(out, at);
      int d = 1;
      for (; d < num_dims_; ++d) {
        const bool wraps = ++index[d] == dims_[d].size;
        const int64_t steps = wraps ? 1 - dims_[d].size : 1;
        for (int k = 0; k < kOperands; ++k) at[k] += steps * dims_[d].stride[k];
        if (!wraps) break;
        index[d] = 0;
      }
      if (d == num_dims_) return;
    }
  }

 private:
  struct Dim {
    int64_t size = 0;
    Offsets stride = {};
  };

  std::array<Dim, kMaxRank> dims_;  // innermost first
  int num_dims_ = 0;
  bool empty_ = false;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_BROADCAST_H_
