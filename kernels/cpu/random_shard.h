// SPDX-License-Identifier: Apache-2.0
//
// RandomShard: the elements of a global random tensor that a replica computes. Element i depends
// only on i, not on the replica, so a replica that holds some rows starts at their first element.
#ifndef MIRRORFLOW_KERNELS_CPU_RANDOM_SHARD_H_
#define MIRRORFLOW_KERNELS_CPU_RANDOM_SHARD_H_

#include <cstdint>

#include "framework/runtime/kernel.h"

namespace mirrorflow {

// A share is a number of contiguous runs of the global tensor, which begin `stride` elements apart.
class RandomShard {
 public:
  // The share of output 0.
  explicit RandomShard(const KernelContext& c) {
    const Shape &local = c.output_shape(0), &global = c.global_output_shape(0);
    const Sharded* sharded = AsSharded(c.output_sharding(0));
    if (sharded == nullptr) {
      run_length_ = local.num_elements();
      return;
    }
    axis_ = sharded->axis;
    factor_ = sharded->factor;
    row_size_ = 1;
    for (int i = 0; i < sharded->dim; ++i) runs_ *= local.dim(i);
    for (int i = sharded->dim + 1; i < local.rank(); ++i) row_size_ *= local.dim(i);
    run_length_ = local.dim(sharded->dim) * row_size_;
    stride_ = global.dim(sharded->dim) * row_size_;
  }

  // Calls generate(first, n, out) for the elements [first, first + n) of each run.
  template <typename T, typename Fn>
  void ForEachRun(const StepParams& params, T* out, const Fn& generate) const {
    int64_t first = axis_ < 0 ? 0 : params.first_row[axis_] * factor_ * row_size_;
    for (int64_t r = 0; r < runs_; ++r) {
      generate(static_cast<uint64_t>(first), run_length_, out);
      first += stride_;
      out += run_length_;
    }
  }

 private:
  int64_t runs_ = 1;
  int64_t run_length_ = 1;
  int64_t stride_ = 0;
  // The first run begins at row `factor` * first_row[axis]; rows have `row_size` elements.
  AxisId axis_ = -1;
  int64_t factor_ = 0;
  int64_t row_size_ = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_RANDOM_SHARD_H_
