// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_FRAMEWORK_DATA_DISTRIBUTED_BATCH_H_
#define MIRRORFLOW_FRAMEWORK_DATA_DISTRIBUTED_BATCH_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "framework/core/tensor.h"

namespace mirrorflow {

// One batch of a DistributedDataset, with one tensor per component, ready for Step::Run. Each
// replica reads its rows from it.
class DistributedBatch {
 public:
  DistributedBatch() = default;
  // `replica_rows` holds the row counts of all replicas in the world. If it is empty, the rows are
  // split evenly.
  DistributedBatch(std::vector<Tensor> components, std::vector<Tensor> next, int64_t num_rows,
                   bool has_local_rows, std::vector<int64_t> replica_rows)
      : components_(std::move(components)),
        next_(std::move(next)),
        num_rows_(num_rows),
        has_local_rows_(has_local_rows),
        replica_rows_(std::move(replica_rows)) {}

  // Returns the rows of this worker's replicas; with a single worker, the global batch.
  absl::Span<const Tensor> components() const { return components_; }
  // Returns the components of the next batch; empty if this worker has no more rows.
  absl::Span<const Tensor> next() const { return next_; }
  operator absl::Span<const Tensor>() const { return components_; }  // NOLINT: what Step::Run takes
  // Returns the number of rows in the global batch; with AutoShardPolicy::kOff, in this worker's
  // batch.
  int64_t num_rows() const { return num_rows_; }

  // Return the options to pass to Step::Run with these components.
  bool has_local_rows() const { return has_local_rows_; }
  absl::Span<const int64_t> replica_rows() const { return replica_rows_; }

 private:
  std::vector<Tensor> components_, next_;
  int64_t num_rows_ = 0;
  bool has_local_rows_ = false;
  std::vector<int64_t> replica_rows_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_DATA_DISTRIBUTED_BATCH_H_
