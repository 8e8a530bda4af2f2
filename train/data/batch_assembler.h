// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_DATA_BATCH_ASSEMBLER_H_
#define MIRRORFLOW_TRAIN_DATA_BATCH_ASSEMBLER_H_

#include <memory>
#include <optional>

#include "framework/data/batch_provider.h"
#include "framework/data/dataset_fingerprint.h"
#include "train/data/padding.h"
#include "train/data/row_readers.h"
#include "train/data/row_stream.h"

namespace mirrorflow {

// A dataset's fingerprint that AssembleBatches must complete, with the dtypes and shapes of the
// rows and the checksums of the first and last batch.
struct FingerprintTask {
  std::shared_ptr<DatasetFingerprint> fingerprint;
  int64_t epoch = 0;            // the epoch that `order` was started with
  std::optional<int64_t> size;  // number of batches; set only if skipping to the last one is cheap
};

struct AssembleOptions {
  int num_threads = 1;
  std::optional<Padding> padding = std::nullopt;
  std::optional<FingerprintTask> fingerprint = std::nullopt;  // completed before the first batch
};

// Returns a source of batches. For each element of `order`, reads the shard's rows and copies them
// into a batch. A batch's buffers are reused once the batch is released. `order` must have been
// started.
std::unique_ptr<BatchSource> AssembleBatches(RowReaderPtr reader, std::unique_ptr<RowStream> order,
                                             const BatchShard& shard,
                                             const AssembleOptions& options);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_BATCH_ASSEMBLER_H_
