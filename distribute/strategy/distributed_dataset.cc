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
    : has_local_rows_(has_local_rows), shard_(shard), comparison_(std::move(comparison)) {
  if (!batches.ok()) {
    more_ = batches.status();
    if (comparison_ == nullptr) status_ = batches.status();
    return;
  }
  source_ = std::move(batches->source);
  fingerprint_ = std::move(batches->fingerprint);
}

DistributedDataset::DistributedDataset(absl::StatusOr<FileBatches> files,
                                       std::unique_ptr<InputAgreement> agreement)
    : agreement_(std::move(agreement)) {
  if (!files.ok()) {
    more_ = files.status();
    return;
  }
  files_ = *std::move(files);
  source_ = std::move(files_.source);
  more_ = source_ != nullptr;
}

bool DistributedDataset::HasRoomAhead() const {
  if (ahead_.empty() || agreement_ == nullptr) return ahead_.empty();
  size_t bytes = 0;
  for (const SourceBatch& batch : ahead_) {
    for (const Tensor& t : batch.components) bytes += t.bytes();
  }
  return ahead_.size() < kMaxBatchesAhead && bytes < kMaxBytesAhead;
}

void DistributedDataset::ReadAhead() {
  int reads = ++steps_ % kStepsPerExtraBatch == 0 ? 2 : 1;
  for (; reads > 0 && source_ != nullptr && HasRoomAhead(); --reads) {
    SourceBatch batch;
    more_ = source_->Next(&batch);
    if (more_.ok()) more_ = *more_ && !batch.components.empty();
    if (more_.ok() && *more_) {
      ahead_.push_back(std::move(batch));
    } else {
      source_ = nullptr;
    }
  }
  if (agreement_ != nullptr && !agreement_->is_next_known()) {
    agreement_->Offer(files_, ahead_, more_);
  }
}

absl::Status DistributedDataset::CompareData() {
  if (comparison_ == nullptr) return absl::OkStatus();
  absl::StatusOr<DatasetFingerprint> own = DatasetFingerprint();
  if (!more_.ok()) {
    own = more_.status();
  } else if (fingerprint_ != nullptr) {
    own = *fingerprint_;
  } else if (!ahead_.empty()) {
    own = FingerprintOfFirstBatch();
  }
  return std::exchange(comparison_, nullptr)->Compare(own);
}

DatasetFingerprint DistributedDataset::FingerprintOfFirstBatch() const {
  const SourceBatch& first = ahead_.front();
  if (has_local_rows_) {  // workers have different rows, and possibly different row counts
    return {.types = TypesOfRows(first.components),
            .first_batch = absl::StrCat(first.global_rows, " rows")};
  }
  TensorChecksum checksum;
  checksum.Add(first.components);
  return {.types = TypesOf(first.components), .first_batch = checksum.ToString()};
}

bool DistributedDataset::Next(DistributedBatch* batch) {
  if (!status_.ok() || over_) return false;
  if (!std::exchange(begun_, true)) {
    ReadAhead();
    status_ = CompareData();
    if (!status_.ok()) return false;
  }
  SourceBatch current;
  if (!ahead_.empty()) {
    current = std::move(ahead_.front());
    ahead_.pop_front();
  }
  std::vector<Tensor>& components = current.components;
  std::vector<int64_t> replica_rows;
  if (agreement_ != nullptr) {
    status_ = agreement_->Await(&components, &replica_rows).status();
  } else if (components.empty()) {
    status_ = more_.status();
  }
  over_ = components.empty();
  if (!status_.ok() || over_) return false;
  const bool is_sharded = shard_.num_ranks < shard_.world_size;
  const Shape& shape = components[0].shape();
  int64_t num_rows = is_sharded || shape.rank() == 0 ? current.global_rows : shape.dim(0);
  if (agreement_ != nullptr) {
    num_rows = std::accumulate(replica_rows.begin(), replica_rows.end(), int64_t{0});
  }
  for (int r = 0; r < shard_.world_size && is_sharded; ++r) {
    replica_rows.push_back(FirstRowOf(r + 1, num_rows, shard_.world_size) -
                           FirstRowOf(r, num_rows, shard_.world_size));
  }
  *batch = DistributedBatch();  // lets the source reuse the previous batch's memory
  ReadAhead();
  *batch = DistributedBatch(std::move(components),
                            ahead_.empty() ? std::vector<Tensor>() : ahead_.front().components,
                            num_rows, has_local_rows_, std::move(replica_rows));
  return true;
}

}  // namespace mirrorflow
