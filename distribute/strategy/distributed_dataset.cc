// SPDX-License-Identifier: Apache-2.0
#include "distribute/strategy/distributed_dataset.h"

#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/data/batch_provider.h"

namespace mirrorflow {

DistributedDataset::DistributedDataset(absl::StatusOr<FingerprintedBatches> batches,
                                       bool has_local_rows, const BatchShard& shard,
                                       std::unique_ptr<InputAgreement> comparison)
    : has_local_rows_(has_local_rows),
      shard_(shard),
      comparison_(std::move(comparison)),
      ahead_status_(batches.status()) {
  if (comparison_ == nullptr) status_ = batches.status();
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
  std::vector<int64_t> replica_rows;
  status_ = agreement_ != nullptr ? agreement_->Await(&ahead_.components, &replica_rows).status()
                                  : ahead_status_;
  over_ = ahead_.components.empty();
  if (!status_.ok() || over_) return false;
  std::vector<Tensor> components = std::move(ahead_.components);
  const bool is_sharded = shard_.num_ranks < shard_.world_size;
  const Shape& shape = components[0].shape();
  int64_t num_rows = is_sharded || shape.rank() == 0 ? ahead_.global_rows : shape.dim(0);
  if (agreement_ != nullptr) {
    num_rows = std::accumulate(replica_rows.begin(), replica_rows.end(), int64_t{0});
  }
  for (int r = 0; r < shard_.world_size && is_sharded; ++r) {
    replica_rows.push_back(FirstRowOf(r + 1, num_rows, shard_.world_size) -
                           FirstRowOf(r, num_rows, shard_.world_size));
  }
  *batch = DistributedBatch();  // the source reuses the memory of a batch that is released
  ReadAhead();
  *batch = DistributedBatch(std::move(components), ahead_.components, num_rows, has_local_rows_,
                            std::move(replica_rows));
  return true;
}

}  // namespace mirrorflow
