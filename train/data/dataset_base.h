// SPDX-License-Identifier: Apache-2.0
//
// DatasetBase: the base class of Dataset's implementations, RowDataset and FileDataset
// (file_dataset.h).
#ifndef MIRRORFLOW_TRAIN_DATA_DATASET_BASE_H_
#define MIRRORFLOW_TRAIN_DATA_DATASET_BASE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/data/batch_provider.h"
#include "train/data/row_pipeline.h"

namespace mirrorflow {

class DatasetBase {
 public:
  virtual ~DatasetBase() = default;

  // Returns this dataset with `stage` appended.
  virtual std::shared_ptr<const DatasetBase> Then(RowStage stage) const = 0;
  // Returns the pipeline of all rows. Opens their files.
  virtual const absl::StatusOr<RowPipeline>& Rows() const = 0;
  // See Dataset.
  virtual absl::StatusOr<FileBatches> OpenFiles(int64_t epoch, const FileShard& shard) const = 0;
  virtual absl::Status CheckBatched() const;
  const std::string& ToString() const { return description_; }

 protected:
  DatasetBase(std::string description, bool batched)
      : description_(std::move(description)), batched_(batched) {}
  bool batched() const { return batched_; }

 private:
  const std::string description_;
  const bool batched_;
};

// A dataset whose rows do not come from a list of files, or the first stage error.
class RowDataset final : public DatasetBase {
 public:
  explicit RowDataset(absl::StatusOr<RowPipeline> rows);

  std::shared_ptr<const DatasetBase> Then(RowStage stage) const override;
  const absl::StatusOr<RowPipeline>& Rows() const override { return rows_; }
  absl::StatusOr<FileBatches> OpenFiles(int64_t epoch, const FileShard& shard) const override;
  absl::Status CheckBatched() const override;

 private:
  const absl::StatusOr<RowPipeline> rows_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_DATASET_BASE_H_
