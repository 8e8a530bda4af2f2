// SPDX-License-Identifier: Apache-2.0
//
// Rendezvous: a barrier for the host threads of the ranks of one process. A backend whose
// collectives run on a GPU uses it to agree on what to enqueue. A mutex and a condition variable
// are fast enough, because the GPU stays busy in the meantime.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_RENDEZVOUS_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_RENDEZVOUS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/core/mutex.h"

namespace mirrorflow {

class Rendezvous {
 public:
  // `timeout` limits each wait; it can be infinite.
  Rendezvous(int world_size, absl::Duration timeout) : world_size_(world_size), timeout_(timeout) {}

  int world_size() const { return world_size_; }

  // Returns the first failure of any rank, which all ranks then return; OK if none has failed.
  absl::Status status() const;
  // Fails all ranks with `why` and ends all waits. Returns whether `why` is the first failure. Can
  // be called from any thread.
  bool Fail(const absl::Status& why);

  // Blocks until all ranks have called it. `what` names the purpose in errors. Everything that a
  // rank wrote before the call is then visible to all ranks. Returns DeadlineExceeded on all ranks
  // if one does not arrive.
  absl::Status Meet(int rank, absl::string_view what);

 private:
  const int world_size_;
  const absl::Duration timeout_;
  mutable Mutex mu_;
  CondVar changed_;
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
  uint64_t meetings_ ABSL_GUARDED_BY(mu_) = 0;  // completed meetings
  int present_ ABSL_GUARDED_BY(mu_) = 0;        // ranks that have arrived at the next meeting
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_RENDEZVOUS_H_
