// SPDX-License-Identifier: Apache-2.0
//
// RowPipeline: a source of rows and the stages that follow it. A RowDataset has one pipeline, a
// FileDataset has one per shard of its files.
#ifndef MIRRORFLOW_TRAIN_DATA_ROW_PIPELINE_H_
#define MIRRORFLOW_TRAIN_DATA_ROW_PIPELINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/data/batch_provider.h"
#include "framework/data/dataset_fingerprint.h"
#include "train/data/padding.h"
#include "train/data/row_readers.h"
#include "train/data/row_stream.h"

namespace mirrorflow {

struct RowPipeline {
  using MakeStream = std::function<std::unique_ptr<RowStream>()>;

  std::string description;  // Dataset::ToString()
  std::string files;        // DatasetFingerprint::files of all sources
  FileShard shard;          // the files that are read
  RowReaderPtr reader;      // reads the rows of the stream
  MakeStream stream;
  std::optional<int64_t> size;  // in elements; nullopt if unknown or infinite
  bool is_endless = false;
  // Whether the stream has all rows of a random-access source, in the source's order.
  bool in_order = false;
  bool skips_fast = true;  // whether elements can be skipped without being produced
  bool batched = false;
  bool drop_remainder = false;
  std::optional<Padding> padding;
  int num_threads = 1;
  int prefetch = 1;

  // Replaces the source with the first `rows` rows of `new_reader`, which has random access.
  void ReadInOrder(RowReaderPtr new_reader, int64_t rows);
  // Appends a transform that chooses or reorders elements without using their values.
  void Append(RowTransform transform, std::optional<int64_t> new_size);
  // Appends a transform that uses row values. Returns InvalidArgument, naming the stage, if the
  // rows are already batched.
  absl::Status AppendToValues(absl::string_view stage, RowTransform transform,
                              std::optional<int64_t> new_size);
  // Returns InvalidArgument, naming the stage, if the rows are already batched.
  absl::Status CheckRows(absl::string_view stage) const;
  // Returns a function that creates a stream of rows with values.
  MakeStream Values(int64_t max_errors = 0) const;
  // Returns an iterator for one pass. `fingerprint` can be null.
  absl::StatusOr<std::unique_ptr<BatchSource>> MakeIterator(
      int64_t epoch, const BatchShard& batch_shard,
      std::shared_ptr<DatasetFingerprint> fingerprint) const;
};

// One stage of a Dataset.
struct RowStage {
  std::string
      name;  // shown in Dataset::ToString(); empty if the stage keeps the elements unchanged
  std::function<absl::Status(RowPipeline& rows)> apply;  // changes the pipeline in place
  bool makes_batches = false;

  // Returns the description of a dataset that ends with this stage.
  std::string Describe(absl::string_view input) const;
  // Appends the stage to `input`, or returns its error.
  absl::StatusOr<RowPipeline> ApplyTo(const absl::StatusOr<RowPipeline>& input) const;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_ROW_PIPELINE_H_
