// SPDX-License-Identifier: Apache-2.0
//
// LocalReplicas owns one worker's replicas, their devices, and the threads that run them:
// DeviceTraits::num_threads per replica.
#ifndef MIRRORFLOW_FRAMEWORK_WORKERS_LOCAL_REPLICAS_H_
#define MIRRORFLOW_FRAMEWORK_WORKERS_LOCAL_REPLICAS_H_

#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/runtime/replica.h"
#include "framework/runtime/replica_team.h"
#include "framework/runtime/variable_layout.h"

namespace mirrorflow {

class LocalReplicas {
 public:
  struct Options {
    bool pin_threads = true;
    CoreSharers core_sharers = {};
  };
  // Creates one replica on each device, with the rank of the same index. Replicas share the regions
  // of `layout` that `memory` provides; each replica allocates its own memory for the regions that
  // are null there.
  static absl::StatusOr<std::unique_ptr<LocalReplicas>> Create(
      std::vector<std::unique_ptr<Device>> devices, absl::Span<const int> ranks,
      const VariableLayout& layout, absl::Span<const std::shared_ptr<std::byte>> memory,
      const Options& options);

  int size() const { return static_cast<int>(replicas_.size()); }
  Replica& operator[](int i) const { return *replicas_[i]; }
  Replica& first() const { return *replicas_[0]; }
  // Returns the index of `replica`.
  int IndexOf(const Replica& replica) const { return replica.rank() - first().rank(); }
  absl::Span<const std::unique_ptr<Replica>> all() const { return replicas_; }
  auto begin() const { return replicas_.begin(); }
  auto end() const { return replicas_.end(); }

  // Calls work(i) for every replica, each on its own thread; the first replica uses the caller's
  // thread. Not thread-safe.
  void Run(absl::FunctionRef<void(int)> work) {
    RunThreads([&](int i, int thread) {
      if (thread == 0) work(i);
    });
  }
  // Calls work(i, thread) for every thread of every replica; the first thread of the first replica
  // is the caller's. Not thread-safe.
  void RunThreads(absl::FunctionRef<void(int, int)> work) {
    if (num_threads_ == 1) return team_.Run([&](int i) { work(i, 0); });
    team_.Run([&](int i) { work(i / num_threads_, i % num_threads_); });
  }

 private:
  LocalReplicas(std::vector<std::unique_ptr<Device>> devices, const Options& options)
      : devices_(std::move(devices)),
        num_threads_(devices_[0]->traits().num_threads),
        team_(static_cast<int>(devices_.size()) * num_threads_, options.pin_threads,
              {.first = options.core_sharers.first * num_threads_,
               .count = options.core_sharers.count * num_threads_}) {}

  const std::vector<std::unique_ptr<Device>> devices_;
  const int num_threads_;  // of each replica
  std::vector<std::unique_ptr<Replica>> replicas_;
  ReplicaTeam team_;  // declared last: its threads use the replicas, so they must end first
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_WORKERS_LOCAL_REPLICAS_H_
