// SPDX-License-Identifier: Apache-2.0
//
// InputAgreement: makes the workers agree on each step's input, so all of them run the same steps
// and fail with the same error.
//
// With AutoShardPolicy::kData, all workers must have the same data, and compare it once:
//
//   MF_RETURN_IF_ERROR(agreement.Compare(fingerprint));
//
// With AutoShardPolicy::kFile, each worker knows only its own rows. The workers exchange the row
// counts of the batches that they have read ahead. One exchange covers as many steps as every
// worker has batches for. Before each step:
//
//   if (!agreement.is_next_known()) agreement.Offer(files, ahead, more);  // does not wait
//   MF_ASSIGN_OR_RETURN(bool more, agreement.Await(&components, &replica_rows));
#ifndef MIRRORFLOW_DISTRIBUTE_STRATEGY_INPUT_AGREEMENT_H_
#define MIRRORFLOW_DISTRIBUTE_STRATEGY_INPUT_AGREEMENT_H_

#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/core/tensor.h"
#include "framework/data/batch_provider.h"
#include "framework/data/dataset_fingerprint.h"
#include "framework/workers/worker_group.h"

namespace mirrorflow {
namespace proto {
class InputOffer;
}

class InputAgreement {
 public:
  struct Options {
    std::shared_ptr<WorkerGroup> group;                 // must have been joined
    std::string name;                                   // unique in the group
    std::vector<int> replicas;                          // number of replicas, by worker
    absl::Duration timeout = absl::InfiniteDuration();  // for each exchange with the other workers
  };
  explicit InputAgreement(Options options);
  ~InputAgreement();  // waits for an Offer() in flight

  // Sends the fingerprint of this worker's dataset, or the error that occurred instead, and waits
  // until all workers have sent theirs. Returns this worker's error, the first error of another
  // worker, or the first difference between the datasets.
  absl::Status Compare(const absl::StatusOr<DatasetFingerprint>& own);

  // Returns whether every worker's input for the next step is known, so Await() does not block.
  bool is_next_known() const;
  // Describes this worker's input for the next steps to the other workers: the batches that it has
  // read `ahead`, and whether more batches or an error follow. Does not block.
  void Offer(const FileBatches& files, const std::deque<SourceBatch>& ahead,
             const absl::StatusOr<bool>& more);
  // Blocks until every worker's input for the next step is known, and advances to the step after
  // it. Returns false if all workers' input has ended or, if the dataset drops remainders, any
  // worker's. Otherwise, sets `replica_rows` to the row counts of all replicas. `components` holds
  // this worker's batch; if it is empty, fills it with components that have zero rows. Returns this
  // worker's error or, if it has none, the first error of another worker.
  absl::StatusOr<bool> Await(std::vector<Tensor>* components, std::vector<int64_t>* replica_rows);

 private:
  // Sends a message and waits for the messages of all workers.
  absl::StatusOr<std::vector<std::string>> Exchange(std::string message);

  const Options options_;
  int64_t messages_ = 0;
  bool drop_remainder_ = false;
  std::vector<proto::InputOffer> offers_;  // by worker, starting with the next step
  // The result of the AllGather in flight. Its destructor blocks until the AllGather has finished.
  std::future<absl::StatusOr<std::vector<std::string>>> answers_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_STRATEGY_INPUT_AGREEMENT_H_
