// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_FAILURE_LISTENER_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_FAILURE_LISTENER_H_

#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "framework/core/mutex.h"

namespace mirrorflow {

// Implements WorkerGroup::OnFailure: calls a function at most once when an incarnation fails, and
// never after Set() has replaced the function. Thread-safe.
class FailureListener {
 public:
  using Call = std::function<void(const absl::Status&)>;

  // Sets the function to call. Calls it immediately if the incarnation has already failed.
  void Set(Call call) {
    MutexLock lock(&mu_);
    call_ = std::move(call);
    if (call_ && !failure_.ok()) call_(failure_);
  }
  // Begins a new incarnation.
  void Reset() {
    MutexLock lock(&mu_);
    failure_ = absl::OkStatus();
  }
  // Records a failure and calls the function. Ignores all but the incarnation's first failure.
  void Notify(const absl::Status& failure) {
    MutexLock lock(&mu_);
    if (!failure_.ok()) return;
    failure_ = failure;
    if (call_) call_(failure_);
  }

 private:
  Mutex mu_;  // held during the call
  Call call_ ABSL_GUARDED_BY(mu_);
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_FAILURE_LISTENER_H_
