// SPDX-License-Identifier: Apache-2.0
//
// InputAgreement: lets the workers agree on the input of their steps, so that all run the same
// steps and end with the same error.
//
// With AutoShardPolicy::kData, all workers must have the same data, which they compare once:
//
//   MF_RETURN_IF_ERROR(agreement.Compare(fingerprint));
//
// With AutoShardPolicy::kFile, each worker knows only its own rows. Each sends the others how many
// rows each batch has that it has read ahead, so one exchange is enough for as many steps as every
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
#include "absl/types/span.h"
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
    std::shared_ptr<WorkerGroup> group;  // which has been joined
    std::string name;                    // differs from that of all others in the group
    std::vector<int> replicas;           // how many each worker has
    absl::Duration timeout = absl::InfiniteDuration();  // of waiting for the other workers
  };
  explicit InputAgreement(Options options);
  ~InputAgreement();  // waits for an Offer() that has not been awaited

  // Sends the fingerprint of this worker's dataset, or why it has none, and waits for those of all
  // workers. Returns the error of this worker, that of the first other one, or the first difference
  // between the datasets.
  absl::Status Compare(const absl::StatusOr<DatasetFingerprint>& own);

  // Whether this worker knows what every worker has for the next step, so that Await() does not
  // wait.
  bool is_next_known() const;
  // Sends what this worker has for the next steps: the batches that it has read `ahead`, and
  // whether there are more of them or an error follows.
  void Offer(const FileBatches& files, const std::deque<SourceBatch>& ahead,
             const absl::StatusOr<bool>& more);
  // Waits until what all workers have for the next step is known, and goes on to the step after it.
  // Returns false if the input of all has ended. Otherwise, sets the rows of each replica of all
  // workers, and fills `components`, which has the batch of this worker, with components without
  // rows if it is empty. The error is that of this worker or, if it has none, of the first other
  // one.
  absl::StatusOr<bool> Await(std::vector<Tensor>* components, std::vector<int64_t>* replica_rows);

 private:
  // Waits until all workers have sent a message.
  absl::StatusOr<std::vector<std::string>> Exchange(std::string message);

  const Options options_;
  int64_t messages_ = 0;
  bool drop_remainder_ = false;
  std::vector<proto::InputOffer> offers_;  // of all workers, from the next step on
  // The result of AllGather. Its destructor waits, too.
  std::future<absl::StatusOr<std::vector<std::string>>> answers_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_STRATEGY_INPUT_AGREEMENT_H_
