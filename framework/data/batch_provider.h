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

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/data/batch_source.h"
#include "framework/data/dataset_fingerprint.h"

namespace mirrorflow {

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
