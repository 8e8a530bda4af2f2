// SPDX-License-Identifier: Apache-2.0
//
// InputAgreement: lets the workers agree on the input of their steps, so that all run the same
// steps and end with the same error.
//
// With AutoShardPolicy::kData, all workers must have the same data, which they compare once:
//
//   MF_RETURN_IF_ERROR(agreement.Compare(fingerprint));
//
// With AutoShardPolicy::kFile, each worker knows only its own rows. Before each step, the workers
// tell one another how many they have, until none has any:
//
//   agreement.Offer(files, status, components);  // of the next step; does not wait
//   MF_ASSIGN_OR_RETURN(bool more, agreement.Await(&components, &replica_rows));
#ifndef MIRRORFLOW_DISTRIBUTE_STRATEGY_INPUT_AGREEMENT_H_
#define MIRRORFLOW_DISTRIBUTE_STRATEGY_INPUT_AGREEMENT_H_

#include <cstdint>
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

class InputAgreement {
 public:
  struct Options {
    std::shared_ptr<WorkerGroup> group;  // which has been joined
    std::string name;                    // differs from that of all others in the group
    std::vector<int> replicas;           // how many each worker has
    absl::Duration timeout = absl::InfiniteDuration();  // of waiting for the other workers
  };
  explicit InputAgreement(Options options) : options_(std::move(options)) {}

  // Sends the fingerprint of this worker's dataset, or why it has none, and waits for those of all
  // workers. Returns the error of this worker, that of the first other one, or the first difference
  // between the datasets.
  absl::Status Compare(const absl::StatusOr<DatasetFingerprint>& own);

  // Sends what this worker has for the next step: an error, rows, or, without components, none.
  void Offer(const FileBatches& files, const absl::Status& status,
             absl::Span<const Tensor> components);
  // Waits for what all workers have. Returns false if the input of all has ended. Otherwise, sets
  // the rows of each replica of all workers, and `components` without rows if this worker has none.
  // The error is that of this worker or, if it has none, of the first other one.
  absl::StatusOr<bool> Await(std::vector<Tensor>* components, std::vector<int64_t>* replica_rows);

 private:
  // Waits until all workers have sent a message.
  absl::StatusOr<std::vector<std::string>> Exchange(std::string message);

  const Options options_;
  int64_t messages_ = 0;
  bool drop_remainder_ = false;
  // The result of AllGather. Its destructor waits, too.
  std::future<absl::StatusOr<std::vector<std::string>>> answers_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_STRATEGY_INPUT_AGREEMENT_H_
