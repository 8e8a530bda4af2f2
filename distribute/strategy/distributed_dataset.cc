// SPDX-License-Identifier: Apache-2.0
#include "distribute/strategy/distributed_dataset.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mirrorflow {

DistributedDataset::DistributedDataset(absl::StatusOr<std::unique_ptr<BatchSource>> source,
                                       bool has_local_rows, const BatchShare& share)
    : has_local_rows_(has_local_rows), share_(share), status_(source.status()) {
  if (source.ok()) source_ = *std::move(source);
}

DistributedDataset::DistributedDataset(absl::StatusOr<FingerprintedBatches> batches,
                                       bool has_local_rows, const BatchShare& share,
                                       std::unique_ptr<InputAgreement> comparison)
    : has_local_rows_(has_local_rows),
      share_(share),
      comparison_(std::move(comparison)),
      ahead_status_(batches.status()) {
  if (!batches.ok()) return;
  source_ = std::move(batches->source);
  fingerprint_ = std::move(batches->fingerprint);
}

DistributedDataset::DistributedDataset(absl::StatusOr<FileBatches> files,
                                       std::unique_ptr<InputAgreement> agreement)
    : agreement_(std::move(agreement)), ahead_status_(files.status()) {
  if (files.ok()) files_ = *std::move(files);
  source_ = std::move(files_.source);
}

void DistributedDataset::ReadAhead() {
  ahead_.components.clear();
  if (source_ != nullptr) {
    const absl::StatusOr<bool> more = source_->Next(&ahead_);
    ahead_status_ = more.status();
    if (!more.ok() || !*more) {
      ahead_.components.clear();
      source_ = nullptr;
    }
  }
  if (agreement_ != nullptr) agreement_->Offer(files_, ahead_status_, ahead_.components);
}

absl::Status DistributedDataset::CompareData() {
  if (comparison_ == nullptr) return absl::OkStatus();
  absl::StatusOr<DatasetFingerprint> own = DatasetFingerprint();
  if (!ahead_status_.ok()) {
    own = ahead_status_;
  } else if (fingerprint_ != nullptr) {
    own = *fingerprint_;
  } else if (!ahead_.components.empty()) {
    own = FingerprintOfFirstBatch();
  }
  return std::exchange(comparison_, nullptr)->Compare(own);
}

DatasetFingerprint DistributedDataset::FingerprintOfFirstBatch() const {
  if (has_local_rows_) {  // of which each worker has others, and perhaps another number
    return {.types = TypesOfRows(ahead_.components),
            .first_batch = absl::StrCat(ahead_.global_rows, " rows")};
  }
  TensorChecksum checksum;
  checksum.Add(ahead_.components);
  return {.types = TypesOf(ahead_.components), .first_batch = checksum.ToString()};
}

bool DistributedDataset::Next(DistributedBatch* batch) {
  if (!status_.ok() || over_) return false;
  if (!std::exchange(begun_, true)) {
    ReadAhead();
    status_ = CompareData();
    if (!status_.ok()) return false;
  }
  batch->next_.clear();
  batch->replica_rows_.clear();
  status_ = agreement_ != nullptr
                ? agreement_->Settle(&ahead_.components, &batch->replica_rows_).status()
                : ahead_status_;
  over_ = ahead_.components.empty();
  if (!status_.ok() || over_) return false;
  batch->components_ = std::move(ahead_.components);
  const bool is_share = share_.num_ranks < share_.world_size;
  const Shape& shape = batch->components_[0].shape();
  batch->num_rows_ = is_share || shape.rank() == 0 ? ahead_.global_rows : shape.dim(0);
  batch->has_local_rows_ = has_local_rows_;
  if (agreement_ != nullptr) {
    batch->num_rows_ =
        std::accumulate(batch->replica_rows_.begin(), batch->replica_rows_.end(), int64_t{0});
  }
  for (int r = 0; r < share_.world_size && is_share; ++r) {
    batch->replica_rows_.push_back(FirstRowOf(r + 1, batch->num_rows_, share_.world_size) -
                                   FirstRowOf(r, batch->num_rows_, share_.world_size));
  }
  ReadAhead();
  batch->next_ = ahead_.components;
  return true;
}

}  // namespace mirrorflow
