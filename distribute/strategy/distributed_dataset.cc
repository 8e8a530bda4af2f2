// SPDX-License-Identifier: Apache-2.0
#include "distribute/strategy/distributed_dataset.h"

#include <utility>

namespace mirrorflow {

DistributedDataset::DistributedDataset(absl::StatusOr<std::unique_ptr<BatchSource>> source)
    : status_(source.status()) {
  if (source.ok()) source_ = *std::move(source);
}

void DistributedDataset::ReadAhead() {
  ahead_.clear();
  if (source_ == nullptr) return;
  const absl::StatusOr<bool> more = source_->Next(&ahead_);
  ahead_status_ = more.status();
  if (more.ok() && *more) return;
  ahead_.clear();
  source_ = nullptr;
}

bool DistributedDataset::Next(DistributedBatch* batch) {
  if (!status_.ok()) return false;
  if (!begun_) ReadAhead();
  begun_ = true;
  batch->next_.clear();
  status_ = ahead_status_;
  if (ahead_.empty()) return false;
  batch->components_ = std::move(ahead_);
  ReadAhead();
  batch->next_ = ahead_;
  return true;
}

}  // namespace mirrorflow
