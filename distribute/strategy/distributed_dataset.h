// SPDX-License-Identifier: Apache-2.0
//
// DistributedDataset feeds the batches of a dataset to the replicas. It reads one batch ahead, so
// that the next feeds can be copied to the devices while a step runs.
#ifndef MIRRORFLOW_DISTRIBUTE_STRATEGY_DISTRIBUTED_DATASET_H_
#define MIRRORFLOW_DISTRIBUTE_STRATEGY_DISTRIBUTED_DATASET_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/core/batch_source.h"
#include "framework/core/tensor.h"

namespace mirrorflow {

// One global batch with one tensor per component. Each replica takes its rows from it.
class DistributedBatch {
 public:
  absl::Span<const Tensor> components() const { return components_; }
  // The components of the next batch; empty at the end.
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

  // Reads the next batch. Returns false at the end or after an error; status() distinguishes the
  // two.
  bool Next(DistributedBatch* batch);
  const absl::Status& status() const { return status_; }

 private:
  // Reads the following batch into ahead_; empty at the end.
  void ReadAhead();

  std::unique_ptr<BatchSource> source_;  // null at the end
  bool begun_ = false;
  std::vector<Tensor> ahead_;
  absl::Status ahead_status_;  // of reading ahead_; reported when that batch is due
  absl::Status status_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_STRATEGY_DISTRIBUTED_DATASET_H_
