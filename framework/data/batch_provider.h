// SPDX-License-Identifier: Apache-2.0
//
// BatchProvider: the input of Strategy::Distribute(), such as a Dataset. Implement it to feed the
// replicas from your own data source:
//
//   class MyBatches final : public mf::BatchProvider {
//     std::unique_ptr<mf::BatchSource> MakeIterator(int64_t epoch,
//                                                   const mf::BatchShard& shard) const override;
//   };
#ifndef MIRRORFLOW_FRAMEWORK_DATA_BATCH_PROVIDER_H_
#define MIRRORFLOW_FRAMEWORK_DATA_BATCH_PROVIDER_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/core/tensor.h"
#include "framework/data/dataset_fingerprint.h"

namespace mirrorflow {

// The shard of every batch that a worker needs: the rows of its replicas. By default, all rows.
struct BatchShard {
  int first_rank = 0;
  int num_ranks = 1;
  int world_size = 1;  // the replicas of all workers

  friend bool operator==(const BatchShard&, const BatchShard&) = default;
};

// Returns the index of the first row of replica `rank` in a batch of `rows` rows. Rows are split
// evenly in rank order; if the division leaves a remainder, the first replicas get one extra row
// each.
inline int64_t FirstRowOf(int rank, int64_t rows, int world_size) {
  return rank * (rows / world_size) + std::min<int64_t>(rank, rows % world_size);
}

struct SourceBatch {
  std::vector<Tensor> components;  // the shard's rows, in the leading dimension
  int64_t global_rows = 0;         // of the whole batch
};

// An iterator over batches. A dataset provides it, and a strategy distributes its batches over the
// replicas.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Fills `batch` with the next batch. Returns false at the end. The tensors stay valid for as long
  // as the caller holds them.
  virtual absl::StatusOr<bool> Next(SourceBatch* batch) = 0;
};

// The files that a worker reads (AutoShardPolicy::kFile): those whose index is `worker` modulo
// `num_workers`. By default, all files.
struct FileShard {
  int worker = 0;
  int num_workers = 1;
  BatchShard batch = {};  // how many rows of each global batch come from these files

  friend bool operator==(const FileShard&, const FileShard&) = default;
};

// The rows of one worker's files.
struct FileBatches {
  std::unique_ptr<BatchSource> source;
  // If true, every batch must have the same number of rows, and the first worker to run out of rows
  // ends the epoch for all workers.
  bool drop_remainder = false;
  // Identifies the list of all files, which must be the same on all workers.
  std::string files = "";
};

// One shard of every batch.
struct FingerprintedBatches {
  std::unique_ptr<BatchSource> source;
  // Complete once source->Next() has returned. Null if the provider does not compute fingerprints.
  std::shared_ptr<const DatasetFingerprint> fingerprint = nullptr;
};

class BatchProvider {
 public:
  virtual ~BatchProvider() = default;

  // Returns the batches of one epoch. This process needs only the rows of `shard`.
  virtual std::unique_ptr<BatchSource> MakeIterator(int64_t epoch,
                                                    const BatchShard& shard) const = 0;
  // Returns whether MakeIterator() leaves out the rows of other shards. Otherwise, it returns whole
  // batches on every worker.
  virtual bool is_sharded() const { return true; }
  // Returns InvalidArgument if the elements are single rows, because Batch() is missing.
  virtual absl::Status CheckBatched() const { return absl::OkStatus(); }
  // Like MakeIterator(), and also returns the fingerprint that workers use to compare their data.
  virtual FingerprintedBatches OpenShard(int64_t epoch, const BatchShard& shard) const {
    return {MakeIterator(epoch, shard)};
  }
  // Returns the batches of one worker's files (AutoShardPolicy::kFile).
  virtual absl::StatusOr<FileBatches> OpenFiles(int64_t /*epoch*/,
                                                const FileShard& /*shard*/) const {
    return absl::InvalidArgumentError(
        "AutoShardPolicy FILE: expected a Dataset, got a BatchProvider without a list of files");
  }
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_DATA_BATCH_PROVIDER_H_
