// SPDX-License-Identifier: Apache-2.0
//
// DistributedDataset: feeds a dataset's batches to the replicas. It reads one batch ahead, so the
// next feeds can be copied to the devices while a step runs. With AutoShardPolicy::kFile, it reads
// further ahead, so the workers can agree on many steps at once.
#ifndef MIRRORFLOW_DISTRIBUTE_STRATEGY_DISTRIBUTED_DATASET_H_
#define MIRRORFLOW_DISTRIBUTE_STRATEGY_DISTRIBUTED_DATASET_H_

#include <deque>
#include <memory>

#include "absl/status/status.h"
#include "distribute/strategy/input_agreement.h"
#include "framework/data/batch_provider.h"
#include "framework/data/distributed_batch.h"

namespace mirrorflow {

// How the workers divide a dataset. The names are TensorFlow's.
enum class AutoShardPolicy {
  kAuto,  // the same as kData, so batches never depend on the number of workers
  kData,  // every worker has the same dataset, and gathers only the rows of its own replicas
  // The dataset's files are divided among the workers; there must be at least one per worker. Every
  // worker opens only its own files, and contributes its replicas' rows to every batch. Which rows
  // form a batch depends on the number of workers. A worker that has run out of rows joins the
  // remaining steps with empty shards.
  kFile,
  kOff,  // every worker has its own dataset, whose batches are the rows of its replicas
};

struct DistributeOptions {
  AutoShardPolicy auto_shard_policy = AutoShardPolicy::kAuto;
  // With kData, the workers compare their datasets before the first step: the stages, the files,
  // the number of batches, and rows of the first and last batch. Disable this only if rows can
  // legitimately differ between workers, for example because of random augmentation that is not
  // keyed by RowId. Must be the same on all workers.
  bool compare_data = true;
};

class DistributedDataset {
 public:
  // With AutoShardPolicy::kFile, a worker reads up to kMaxBatchesAhead batches ahead, but stops
  // once they hold kMaxBytesAhead. It fills this window by reading a second batch in every
  // kStepsPerExtraBatch-th step, so the first steps hardly wait longer for a slow source.
  static constexpr size_t kMaxBatchesAhead = 64;
  static constexpr size_t kMaxBytesAhead = size_t{64} << 20;
  static constexpr int64_t kStepsPerExtraBatch = 4;

  // `batches` holds the rows of `shard`, or all rows if `has_local_rows` is not set. `comparison`,
  // if not null, compares the data with the other workers' before the first batch. Without a
  // fingerprint, it compares the first batch: its values if it has all rows, and otherwise its row
  // count and types.
  DistributedDataset(absl::StatusOr<FingerprintedBatches> batches, bool has_local_rows,
                     const BatchShard& shard = {},
                     std::unique_ptr<InputAgreement> comparison = nullptr);
  // Feeds the rows of this worker's files.
  DistributedDataset(absl::StatusOr<FileBatches> files, std::unique_ptr<InputAgreement> agreement);

  // Reads the next batch. Returns false at the end or after an error; status() distinguishes the
  // two.
  bool Next(DistributedBatch* batch);
  const absl::Status& status() const { return status_; }

 private:
  // Reads further ahead, and tells the other workers what they need for the next steps.
  void ReadAhead();
  bool HasRoomAhead() const;  // for another batch
  // Compares the dataset with the other workers' once the first batch has been read.
  absl::Status CompareData();
  DatasetFingerprint FingerprintOfFirstBatch() const;

  std::unique_ptr<BatchSource> source_;  // null at the end
  bool has_local_rows_ = true;
  BatchShard shard_;
  std::unique_ptr<InputAgreement> agreement_;   // null unless each worker has its own files
  FileBatches files_;                           // without their source
  std::unique_ptr<InputAgreement> comparison_;  // null if not needed, or once done
  std::shared_ptr<const DatasetFingerprint> fingerprint_;  // of source_
  bool begun_ = false, over_ = false;
  int64_t steps_ = 0;
  std::deque<SourceBatch> ahead_;
  absl::StatusOr<bool> more_ = true;  // whether batches follow; an error is reported when it is due
  absl::Status status_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_STRATEGY_DISTRIBUTED_DATASET_H_
