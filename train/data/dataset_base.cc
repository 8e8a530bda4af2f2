// SPDX-License-Identifier: Apache-2.0
#include "train/data/dataset_base.h"

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"

namespace mirrorflow {

absl::Status DatasetBase::CheckBatched() const {
  if (batched_) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("dataset: call Batch() first; expected batches, got rows of ", description_));
}

RowDataset::RowDataset(absl::StatusOr<RowPipeline> rows)
    : DatasetBase(rows.ok() ? rows->description : "", rows.ok() && rows->batched),
      rows_(std::move(rows)) {}

std::shared_ptr<const DatasetBase> RowDataset::Then(RowStage stage) const {
  return std::make_shared<const RowDataset>(stage.ApplyTo(rows_));
}

absl::StatusOr<FileBatches> RowDataset::OpenFiles(int64_t, const FileShard&) const {
  MF_RETURN_IF_ERROR(rows_.status());
  return absl::InvalidArgumentError(
      "dataset: AutoShardPolicy FILE: expected rows from FromTFRecords() or FromCsv(), without "
      "Zip() or Concatenate(), got a dataset without a list of files");
}

absl::Status RowDataset::CheckBatched() const {
  MF_RETURN_IF_ERROR(rows_.status());
  return DatasetBase::CheckBatched();
}

}  // namespace mirrorflow
