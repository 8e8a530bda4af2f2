// SPDX-License-Identifier: Apache-2.0
//
// FileDataset: the rows of a list of files, which the workers can divide among themselves
// (AutoShardPolicy::kFile). Lists and opens the files when their rows are first needed.
#ifndef MIRRORFLOW_TRAIN_DATA_FILE_DATASET_H_
#define MIRRORFLOW_TRAIN_DATA_FILE_DATASET_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/core/mutex.h"
#include "train/data/dataset_base.h"
#include "train/data/row_pipeline.h"

namespace mirrorflow {

class FileDataset final : public DatasetBase, public std::enable_shared_from_this<FileDataset> {
 public:
  using Paths = std::vector<std::string>;
  using ListFiles = std::function<absl::StatusOr<Paths>()>;
  using ReadFiles = std::function<absl::StatusOr<RowPipeline>(const Paths& paths)>;

  // `named` are the paths as the user passed them, which can be patterns. `list` expands the
  // patterns, and `read` returns the rows of some of the files.
  static std::shared_ptr<const FileDataset> Create(Paths named, ListFiles list, ReadFiles read);

  std::shared_ptr<const DatasetBase> Then(RowStage stage) const override;
  const absl::StatusOr<RowPipeline>& Rows() const override { return RowsOf({}); }
  absl::StatusOr<FileBatches> OpenFiles(int64_t epoch, const FileShard& shard) const override;

 private:
  class FileList;
  using MakeRows = std::function<absl::StatusOr<RowPipeline>(const FileShard&)>;

  FileDataset(std::string description, bool batched, std::shared_ptr<FileList> files,
              MakeRows make);
  // Returns a shard's rows. Opens them only once and keeps them, because they own the data that
  // Cache() has read.
  const absl::StatusOr<RowPipeline>& RowsOf(const FileShard& shard) const;

  const std::shared_ptr<FileList> files_;
  const MakeRows make_;
  mutable Mutex mu_;
  // A deque, because it does not move its elements: RowsOf() returns references to them.
  mutable std::deque<std::pair<FileShard, absl::StatusOr<RowPipeline>>> made_ ABSL_GUARDED_BY(mu_);
};

// These functions describe files for DatasetFingerprint::files, by name or by size. Descriptions by
// size include the names of files that are not in `named`: those files match a pattern, and their
// names determine the order.
std::string IdentityOfNames(const std::vector<std::string>& names);
std::string IdentityOfFiles(const std::vector<std::string>& paths,
                            const std::vector<std::string>& named);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_FILE_DATASET_H_
