// SPDX-License-Identifier: Apache-2.0
//
// DistributedDataset: the batches of a dataset on their way to the replicas, one ahead of the step
// that runs.
#ifndef MIRRORFLOW_DISTRIBUTE_STRATEGY_DISTRIBUTED_DATASET_H_
#define MIRRORFLOW_DISTRIBUTE_STRATEGY_DISTRIBUTED_DATASET_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/core/batch_source.h"
#include "framework/core/tensor.h"

namespace mirrorflow {

// One global batch, one tensor a component; replicas take their rows out of it.
class DistributedBatch {
 public:
  absl::Span<const Tensor> components() const { return components_; }
  // The components of the batch after this one; empty at the end.
  absl::Span<const Tensor> next() const { return next_; }
  operator absl::Span<const Tensor>() const { return components_; }  // NOLINT: what Step::Run takes
  int64_t num_rows() const {
    return components_.empty() || components_[0].shape().rank() == 0
               ? 0
               : components_[0].shape().dim(0);
  }

 private:
  friend class DistributedDataset;
  std::vector<Tensor> components_, next_;
};

class DistributedDataset {
 public:
  explicit DistributedDataset(absl::StatusOr<std::unique_ptr<BatchSource>> source);

  // The next batch; false at the end or after an error, which status() tells apart.
  bool Next(DistributedBatch* batch);
  const absl::Status& status() const { return status_; }

 private:
  // Reads the batch that comes after the last; empty at the end.
  void ReadAhead();

  std::unique_ptr<BatchSource> source_;  // null at its end
  bool begun_ = false;
  std::vector<Tensor> ahead_;
  absl::Status ahead_status_;  // of reading it, which only its own turn makes known
  absl::Status status_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_STRATEGY_DISTRIBUTED_DATASET_H_
