// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/rank_meeting.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/core/status.h"

namespace mirrorflow {

RankMeeting::RankMeeting(int world_size, absl::Duration timeout)
    : world_size_(world_size), timeout_(timeout) {}

absl::Status RankMeeting::status() const {
  std::lock_guard<std::mutex> lock(mu_);
  return failure_;
}

bool RankMeeting::Fail(const absl::Status& why) {
  std::lock_guard<std::mutex> lock(mu_);
  if (!failure_.ok()) return false;
  failure_ = why;
  changed_.notify_all();
  return true;
}

absl::Status RankMeeting::Meet(int rank, absl::string_view what) {
  const absl::Time deadline = absl::Now() + timeout_;
  std::unique_lock<std::mutex> lock(mu_);
  const uint64_t meeting = meetings_;
  if (++present_ == world_size()) {
    present_ = 0;
    ++meetings_;
    changed_.notify_all();
  }
  while (meetings_ == meeting && failure_.ok()) {
    if (absl::Now() > deadline) {
      failure_ = absl::DeadlineExceededError(
          absl::StrCat(what, ": rank ", rank, " waited ", absl::FormatDuration(timeout_),
                       " for the others; expected all ", world_size(), ", got ", present_));
      changed_.notify_all();
    } else if (deadline == absl::InfiniteFuture()) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, absl::ToChronoTime(deadline));
    }
  }
  return failure_;
}

}  // namespace mirrorflow
