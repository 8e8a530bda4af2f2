// SPDX-License-Identifier: Apache-2.0
//
// FailureAttribution finds the worker that caused a failure. A worker whose wait has timed out, or
// whose connection to another worker has ended, is only a victim. The worker at fault is known once
// all other workers have reported their progress or a failure, or are lost.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_FAILURE_ATTRIBUTION_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_FAILURE_ATTRIBUTION_H_

#include <cstdint>
#include <list>

#include "absl/status/status.h"
#include "distribute/cluster/coordination/coordination_state.h"
#include "distribute/cluster/coordination/membership.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"

namespace mirrorflow {

// Thread-safe.
class FailureAttribution {
 public:
  // Keeps a worker's failure report, DeadlineExceeded or Unavailable, until its cause is known.
  // Then calls `done` with the incarnation's first failure, as a serialized proto::Status.
  void Add(CoordinationState* group, uint64_t incarnation, const absl::Status& report,
           CoordinationState::Done done);

  // Answers all pending reports of a group once the cause of one of them is known, or once one is
  // older than 5 s. Answers all reports if `now` is the infinite future.
  void Decide(const Membership& membership, MonotonicTime now);

 private:
  struct UnattributedFailure {
    CoordinationState* group;
    uint64_t incarnation;
    absl::Status report;
    CoordinationState::Done done;
    MonotonicTime since;
  };

  Mutex mu_;
  std::list<UnattributedFailure> pending_ ABSL_GUARDED_BY(mu_);
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_FAILURE_ATTRIBUTION_H_
