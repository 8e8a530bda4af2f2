// SPDX-License-Identifier: Apache-2.0
#include "distribute/strategy/distributed_dataset.h"

#include <utility>

namespace mirrorflow {

DistributedDataset::DistributedDataset(absl::StatusOr<std::unique_ptr<BatchSource>> source,
                                       bool has_local_rows, const BatchShare& share)
    : has_local_rows_(has_local_rows), share_(share), status_(source.status()) {
  if (source.ok()) source_ = *std::move(source);
}

void DistributedDataset::ReadAhead() {
  ahead_.components.clear();
  if (source_ == nullptr) return;
  const absl::StatusOr<bool> more = source_->Next(&ahead_);
  ahead_status_ = more.status();
  if (more.ok() && *more) return;
  ahead_.components.clear();
  source_ = nullptr;
}

bool DistributedDataset::Next(DistributedBatch* batch) {
  if (!status_.ok()) return false;
  if (!begun_) ReadAhead();
  begun_ = true;
  batch->next_.clear();
  status_ = ahead_status_;
  if (ahead_.components.empty()) return false;
  batch->components_ = std::move(ahead_.components);
  const bool is_share = share_.num_ranks < share_.world_size;
  const Shape& shape = batch->components_[0].shape();
  batch->num_rows_ = is_share || shape.rank() == 0 ? ahead_.global_rows : shape.dim(0);
  batch->has_local_rows_ = has_local_rows_;
  batch->replica_rows_.clear();
  for (int r = 0; r < share_.world_size && is_share; ++r) {
    batch->replica_rows_.push_back(FirstRowOf(r + 1, batch->num_rows_, share_.world_size) -
                                   FirstRowOf(r, batch->num_rows_, share_.world_size));
  }
  ReadAhead();
  batch->next_ = ahead_.components;
  return true;
}

}  // namespace mirrorflow
