// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/rendezvous.h"

#include "absl/strings/str_cat.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"

namespace mirrorflow {

absl::Status Rendezvous::status() const {
  MutexLock lock(&mu_);
  return failure_;
}

bool Rendezvous::Fail(const absl::Status& why) {
  MutexLock lock(&mu_);
  if (!failure_.ok()) return false;
  failure_ = why;
  changed_.NotifyAll();
  return true;
}

absl::Status Rendezvous::Meet(int rank, absl::string_view what) {
  const MonotonicTime deadline = MonotonicTime::Now() + timeout_;
  MutexLock lock(&mu_);
  const uint64_t meeting = meetings_;
  if (++present_ == world_size()) {
    present_ = 0;
    ++meetings_;
    changed_.NotifyAll();
  }
  while (meetings_ == meeting && failure_.ok()) {
    if (MonotonicTime::Now() > deadline) {
      failure_ = absl::DeadlineExceededError(
          absl::StrCat(what, ": rank ", rank, " timed out after ", absl::FormatDuration(timeout_),
                       "; expected ", world_size(), " ranks, got ", present_));
      changed_.NotifyAll();
    } else {
      changed_.WaitUntil(lock, deadline);
    }
  }
  return failure_;
}

}  // namespace mirrorflow
