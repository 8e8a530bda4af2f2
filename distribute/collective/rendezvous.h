// SPDX-License-Identifier: Apache-2.0
//
// Rendezvous: a meeting point for the host threads of the ranks of one process. A backend whose
// collectives run on a GPU uses it to agree on what to enqueue. A mutex and a condition variable
// are fast enough, because the GPU has work in the meantime.
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
  // Waits last at most `timeout`, which may be infinite.
  Rendezvous(int world_size, absl::Duration timeout);

  int world_size() const { return world_size_; }

  // The first failure of any rank, which all ranks return from then on; OK until there is one.
  absl::Status status() const;
  // Fails all ranks with `why` and ends all waits. Returns whether `why` is the first failure. May
  // be called from any thread.
  bool Fail(const absl::Status& why);

  // Waits until all ranks have called it; `what` is the purpose, for errors. All ranks then see
  // what each rank has written before. DeadlineExceeded on all ranks if one does not arrive.
  absl::Status Meet(int rank, absl::string_view what);

 private:
  const int world_size_;
  const absl::Duration timeout_;
  mutable Mutex mu_;
  CondVar changed_;
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
  uint64_t meetings_ ABSL_GUARDED_BY(mu_) = 0;  // completed
  int present_ ABSL_GUARDED_BY(mu_) = 0;        // ranks that have arrived at the next one
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_RENDEZVOUS_H_
