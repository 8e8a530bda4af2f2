// SPDX-License-Identifier: Apache-2.0
//
// BatchProvider: what Strategy::Distribute() takes, such as a Dataset. Implement it to feed the
// replicas from a source of your own:
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

// The part of every batch that a worker needs: the rows of its replicas. By default, all rows.
struct BatchShard {
  int first_rank = 0;
  int num_ranks = 1;
  int world_size = 1;  // the replicas of all workers

  friend bool operator==(const BatchShard&, const BatchShard&) = default;
};

// The index of the first row of replica `rank` in a batch of `rows` rows. Rows are split evenly, in
// the order of the ranks, and the first replicas get one more.
inline int64_t FirstRowOf(int rank, int64_t rows, int world_size) {
  return rank * (rows / world_size) + std::min<int64_t>(rank, rows % world_size);
}

struct SourceBatch {
  std::vector<Tensor> components;  // rows in the leading dimension; only those of the shard
  int64_t global_rows = 0;         // of the whole batch
};

// A source of batches. A dataset provides one, and a strategy distributes its batches over the
// replicas.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Fills `batch` with the next batch. Returns false at the end. The tensors stay valid as long as
  // they are held.
  virtual absl::StatusOr<bool> Next(SourceBatch* batch) = 0;
};

// The files of a worker (AutoShardPolicy::kFile): of all files, those whose index is `worker`
// modulo `num_workers`. By default, all files.
struct FileShard {
  int worker = 0;
  int num_workers = 1;
  BatchShard batch = {};  // how many rows of a batch are those of its files

  friend bool operator==(const FileShard&, const FileShard&) = default;
};

// The rows of the files of one worker.
struct FileBatches {
  std::unique_ptr<BatchSource> source;
  // No batch may have fewer rows than the others, so that the first worker to end ends all.
  bool drop_remainder = false;
  // Identifies the files of all workers, which must have the same list.
  std::string files = "";
};

// One shard of every batch.
struct FingerprintedBatches {
  std::unique_ptr<BatchSource> source;
  // Complete once source->Next() has returned. Null for a provider that makes none.
  std::shared_ptr<const DatasetFingerprint> fingerprint = nullptr;
};

class BatchProvider {
 public:
  virtual ~BatchProvider() = default;

  // Returns the batches of one epoch, of which this process needs only the rows of `shard`.
  virtual std::unique_ptr<BatchSource> MakeIterator(int64_t epoch,
                                                    const BatchShard& shard) const = 0;
  // Whether MakeIterator() leaves out the rows of other shards. Otherwise, it returns whole batches
  // on every worker.
  virtual bool is_sharded() const { return true; }
  // InvalidArgument if the elements are rows without Batch().
  virtual absl::Status CheckBatched() const { return absl::OkStatus(); }
  // MakeIterator() with a fingerprint, by which the workers compare their data.
  virtual FingerprintedBatches OpenShard(int64_t epoch, const BatchShard& shard) const {
    return {MakeIterator(epoch, shard)};
  }
  // Returns the batches of the files of one worker.
  virtual absl::StatusOr<FileBatches> OpenFiles(int64_t /*epoch*/,
                                                const FileShard& /*shard*/) const {
    return absl::InvalidArgumentError(
        "AutoShardPolicy FILE: expected a Dataset, got another type, which has no list of files");
  }
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_DATA_BATCH_PROVIDER_H_
