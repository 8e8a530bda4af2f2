// SPDX-License-Identifier: Apache-2.0
//
// DistributedDataset: reads a dataset's batches and splits them among the replicas. It reads one
// batch ahead, so the next feeds can be copied to the devices while a step runs. With
// AutoShardPolicy::kFile, it reads further ahead, so the workers can agree on many steps at once.
//
//   DistributedDataset input = strategy->Distribute(dataset.Batch(256), epoch);
//   for (DistributedBatch batch; input.Next(&batch);) MF_RETURN_IF_ERROR(step.Run(batch).status());
//   MF_RETURN_IF_ERROR(input.status());  // why Next() returned false
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
  kData,  // every worker has the same dataset, and takes only its own replicas' rows
  // The dataset's files are divided among the workers; there must be at least one per worker. Every
  // worker opens only its own files, and contributes its replicas' rows to every batch. Which rows
  // form a batch depends on the number of workers. A worker that has run out of rows joins the
  // remaining steps with empty shards.
  kFile,
  kOff,  // every worker has its own dataset, whose batches hold only its replicas' rows
};

struct DistributeOptions {
  AutoShardPolicy auto_shard_policy = AutoShardPolicy::kAuto;
  // If true, workers that split the batches of equal datasets (kData) compare these datasets before
  // the first step: the stages, the files, the number of batches, and rows of the first and last
  // batch. Set it to false only if rows can legitimately differ between workers, for example
  // because of random augmentation that is not keyed by RowId. Must be the same on all workers.
  bool compare_data = true;
};

class DistributedDataset {
 public:
  // With AutoShardPolicy::kFile, a worker reads up to kMaxBatchesAhead batches ahead, but stops
  // once they hold kMaxBytesAhead. It fills this window gradually, with one extra batch every
  // kStepsPerExtraBatch steps, so a slow source hardly delays the first steps any further.
  static constexpr size_t kMaxBatchesAhead = 64;
  static constexpr size_t kMaxBytesAhead = size_t{64} << 20;
  static constexpr int64_t kStepsPerExtraBatch = 4;

  // `batches` holds the rows of `shard`, or all rows if `has_local_rows` is false. `comparison`, if
  // not null, compares this worker's data with the other workers' before the first batch is
  // returned. If `batches` has no fingerprint, it compares the first batch: its values if it has
  // all rows, and otherwise its row count and types.
  DistributedDataset(absl::StatusOr<FingerprintedBatches> batches, bool has_local_rows,
                     const BatchShard& shard = {},
                     std::unique_ptr<InputAgreement> comparison = nullptr);
  // Reads the rows of this worker's files.
  DistributedDataset(absl::StatusOr<FileBatches> files, std::unique_ptr<InputAgreement> agreement);

  // Reads the next batch. Returns false at the end of the epoch or after an error; status() is OK
  // only at the end.
  bool Next(DistributedBatch* batch);
  const absl::Status& status() const { return status_; }

 private:
  // Reads further ahead. With AutoShardPolicy::kFile, also offers the batches to the other workers
  // if the next step's input is not known yet.
  void ReadAhead();
  bool HasRoomAhead() const;  // whether another batch may be read ahead
  // Compares the dataset with the other workers'. Requires that the first batch has been read.
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
  // Whether batches follow those in ahead_. An error is reported after these batches.
  absl::StatusOr<bool> more_ = true;
  absl::Status status_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_STRATEGY_DISTRIBUTED_DATASET_H_
