// SPDX-License-Identifier: Apache-2.0
//
// The rows of a global tensor that a replica holds.
#ifndef MIRRORFLOW_KERNELS_CPU_SHARD_ROWS_H_
#define MIRRORFLOW_KERNELS_CPU_SHARD_ROWS_H_

#include <cstdint>

#include "framework/runtime/kernel.h"

namespace mirrorflow {

// Maps the rows of output 0 of a kernel to rows of the global tensor: of(params) returns the global
// index of the first row that the kernel computes. The rows are along dimension `dim`.
class FirstRow {
 public:
  FirstRow() = default;
  FirstRow(const KernelContext& c, int dim) : first_in_node_(c.first_index(dim)) {
    const Sharded* s = AsSharded(c.output_sharding(0));
    if (s == nullptr || s->dim != dim) return;
    axis_ = s->axis;
    first_in_shard_ = c.first_row();
    factor_ = s->factor;
  }

  int64_t of(const StepParams& params) const {
    const int64_t of_shard =
        factor_ == 0 ? 0 : (params.first_row[axis_] + first_in_shard_) * factor_;
    return of_shard + first_in_node_;
  }

 private:
  AxisId axis_ = 0;
  int64_t first_in_shard_ = 0;  // the node's first row, in rows of the axis
  int64_t first_in_node_ = 0;   // the first row of the thread's part
  int64_t factor_ = 0;          // 0 if the rows are not sharded
};

// The elements of a global random tensor that one replica computes. Element i depends only on i,
// not on the replica, so a replica starts at the first element of its shard. A shard consists of
// contiguous runs of the global tensor, which begin `stride` elements apart.
class RandomShard {
 public:
  // Reads the shard of output 0.
  explicit RandomShard(const KernelContext& c) {
    const Shape &local = c.output_shape(0), &global = c.global_output_shape(0);
    const Sharded* sharded = AsSharded(c.output_sharding(0));
    if (sharded == nullptr) {
      run_length_ = local.num_elements();
      return;
    }
    first_row_ = FirstRow(c, sharded->dim);
    runs_ = local.num_elements_before(sharded->dim);
    row_size_ = local.num_elements_from(sharded->dim + 1);
    run_length_ = local.dim(sharded->dim) * row_size_;
    stride_ = global.dim(sharded->dim) * row_size_;
  }

  // Calls generate(first, n, out) for the elements [first, first + n) of each run.
  template <typename T, typename Fn>
  void ForEachRun(const StepParams& params, T* out, const Fn& generate) const {
    int64_t first = first_row_.of(params) * row_size_;
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
  FirstRow first_row_;
  int64_t row_size_ = 1;  // elements
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_SHARD_ROWS_H_
