// SPDX-License-Identifier: Apache-2.0
//
// BatchSource: a source of batches. A dataset provides one, and a strategy distributes its batches
// over the replicas.
#ifndef MIRRORFLOW_FRAMEWORK_DATA_BATCH_SOURCE_H_
#define MIRRORFLOW_FRAMEWORK_DATA_BATCH_SOURCE_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/core/tensor.h"

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

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Fills `batch` with the next batch. Returns false at the end. The tensors stay valid as long as
  // they are held.
  virtual absl::StatusOr<bool> Next(SourceBatch* batch) = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_DATA_BATCH_SOURCE_H_
