// SPDX-License-Identifier: Apache-2.0
#include "distribute/strategy/distributed_dataset.h"

namespace mirrorflow {

DistributedDataset::DistributedDataset(absl::StatusOr<std::unique_ptr<BatchSource>> source)
    : status_(source.status()) {
  if (source.ok()) source_ = *std::move(source);
}

bool DistributedDataset::Next(DistributedBatch* batch) {
  if (!status_.ok() || source_ == nullptr) return false;
  absl::StatusOr<bool> more = source_->Next(&batch->components_);
  if (!more.ok()) {
    status_ = more.status();
    return false;
  }
  return *more;
}

}  // namespace mirrorflow
