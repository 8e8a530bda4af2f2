// SPDX-License-Identifier: Apache-2.0
#include "train/data/row_pipeline.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "train/data/batch_assembler.h"
#include "train/data/loaded_rows.h"
#include "train/data/prefetch.h"

namespace mirrorflow {

void RowPipeline::ReadInOrder(RowReaderPtr new_reader, int64_t rows) {
  reader = std::move(new_reader);
  stream = [rows] { return AllRows(rows); };
  size = rows;
  in_order = true;
}

void RowPipeline::Append(RowTransform transform, std::optional<int64_t> new_size) {
  stream = [input = std::move(stream), transform = std::move(transform)] {
    return transform(input());
  };
  size = new_size;
  in_order = false;
}

absl::Status RowPipeline::AppendToValues(absl::string_view stage, RowTransform transform,
                                         std::optional<int64_t> new_size) {
  MF_RETURN_IF_ERROR(CheckRows(stage));
  stream = Values();
  reader = ValueRows();
  Append(std::move(transform), new_size);
  return absl::OkStatus();
}

absl::Status RowPipeline::CheckRows(absl::string_view stage) const {
  if (!batched) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("dataset: ", stage, " after Batch(); expected rows, got batches"));
}

RowPipeline::MakeStream RowPipeline::Values(int64_t max_errors) const {
  if (reader == ValueRows() && max_errors == 0) return stream;
  const LoadRowsOptions options = {.num_threads = num_threads, .max_errors = max_errors};
  return [input = stream, reader = reader, options] { return LoadRows(input(), reader, options); };
}

absl::StatusOr<std::unique_ptr<BatchSource>> RowPipeline::MakeIterator(
    int64_t epoch, const BatchShard& batch_shard,
    std::shared_ptr<DatasetFingerprint> fingerprint) const {
  std::unique_ptr<RowStream> order = stream();
  MF_RETURN_IF_ERROR(order->Start(epoch));
  AssembleOptions options = {.num_threads = num_threads, .padding = padding};
  if (fingerprint != nullptr) {
    options.fingerprint =
        FingerprintTask{std::move(fingerprint), epoch, skips_fast ? size : std::nullopt};
  }
  std::unique_ptr<BatchSource> source =
      AssembleBatches(reader, std::move(order), batch_shard, options);
  return prefetch > 0 ? Prefetch(std::move(source), prefetch) : std::move(source);
}

std::string RowStage::Describe(absl::string_view input) const {
  return absl::StrCat(input, name.empty() ? "" : ".", name);
}

absl::StatusOr<RowPipeline> RowStage::ApplyTo(const absl::StatusOr<RowPipeline>& input) const {
  MF_RETURN_IF_ERROR(input.status());
  RowPipeline rows = *input;
  MF_RETURN_IF_ERROR(apply(rows));
  rows.description = Describe(rows.description);
  rows.batched |= makes_batches;
  return rows;
}

}  // namespace mirrorflow
