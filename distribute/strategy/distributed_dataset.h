// SPDX-License-Identifier: Apache-2.0
//
// DistributedDataset feeds the batches of a dataset to the replicas. It reads one batch ahead, so
// that the next feeds can be copied to the devices while a step runs. With AutoShardPolicy::kFile,
// it reads further ahead, so that the workers agree on many steps at once.
#ifndef MIRRORFLOW_DISTRIBUTE_STRATEGY_DISTRIBUTED_DATASET_H_
#define MIRRORFLOW_DISTRIBUTE_STRATEGY_DISTRIBUTED_DATASET_H_

#include <deque>
#include <memory>

#include "absl/status/status.h"
#include "distribute/strategy/input_agreement.h"
#include "framework/data/batch_provider.h"
#include "framework/data/distributed_batch.h"

namespace mirrorflow {

// How the workers divide a dataset; TensorFlow's names.
enum class AutoShardPolicy {
  kAuto,  // the same as kData, so that batches never depend on the number of workers
  kData,  // every worker has the same dataset, and gathers only the rows of its own replicas
  // Every worker opens only its own of the dataset's files, of which there must be at least one for
  // each, and contributes the rows of its replicas to every batch. Which rows form a batch depends
  // on the number of workers. A worker without more rows takes part in the steps of the others.
  kFile,
  kOff,  // every worker has a dataset of its own, whose batches are the rows of its replicas
};

struct DistributeOptions {
  AutoShardPolicy auto_shard_policy = AutoShardPolicy::kAuto;
  // With kData, the workers compare their datasets before the first step: the stages, the files,
  // the number of batches, and rows of the first and the last batch. Disable this only
  // if rows may legitimately differ between workers, for example because of random augmentation
  // that is not keyed by RowId.
  // Must be the same on all workers.
  bool compare_data = true;
};

class DistributedDataset {
 public:
  // With AutoShardPolicy::kFile, a worker reads up to kMaxBatchesAhead batches ahead, but no
  // further once they hold kMaxBytesAhead. It gets there by reading a second batch in every
  // kStepsPerExtraBatch-th step, so that the first steps hardly wait longer for a slow source.
  static constexpr size_t kMaxBatchesAhead = 64;
  static constexpr size_t kMaxBytesAhead = size_t{64} << 20;
  static constexpr int64_t kStepsPerExtraBatch = 4;

  // `batches` has the rows of `shard`, or all rows if `has_local_rows` is not set. `comparison`, if
  // not null, compares the data with that of the other workers before the first batch. Without a
  // fingerprint, it compares the first batch: its values if it has all rows, and otherwise its
  // number of rows and their types.
  DistributedDataset(absl::StatusOr<FingerprintedBatches> batches, bool has_local_rows,
                     const BatchShard& shard = {},
                     std::unique_ptr<InputAgreement> comparison = nullptr);
  // The rows of this worker's files.
  DistributedDataset(absl::StatusOr<FileBatches> files, std::unique_ptr<InputAgreement> agreement);

  // Reads the next batch. Returns false at the end or after an error; status() distinguishes the
  // two.
  bool Next(DistributedBatch* batch);
  const absl::Status& status() const { return status_; }

 private:
  // Reads further ahead, and offers the other workers what they need to know for the next step.
  void ReadAhead();
  bool HasRoomAhead() const;  // for another batch
  // Compares the dataset with those of the other workers, once the first batch has been read.
  absl::Status CompareData();
  DatasetFingerprint FingerprintOfFirstBatch() const;

  std::unique_ptr<BatchSource> source_;  // null at the end
  bool has_local_rows_ = true;
  BatchShard shard_;
  std::unique_ptr<InputAgreement> agreement_;   // null unless each worker has its own files
  FileBatches files_;                           // without their source
  std::unique_ptr<InputAgreement> comparison_;  // null if there is none, or once done
  std::shared_ptr<const DatasetFingerprint> fingerprint_;  // of source_
  bool begun_ = false, over_ = false;
  int64_t steps_ = 0;
  std::deque<SourceBatch> ahead_;
  absl::StatusOr<bool> more_ = true;  // whether batches follow; an error is reported when it is due
  absl::Status status_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_STRATEGY_DISTRIBUTED_DATASET_H_
