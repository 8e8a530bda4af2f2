// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/rank_meeting.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/core/status.h"

namespace mirrorflow {

RankMeeting::RankMeeting(int world_size, absl::Duration timeout)
    : timeout_(timeout), parts_(world_size) {}

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

absl::StatusOr<RankMeeting::Part<void>> RankMeeting::SplitUntyped(int rank, int color, int key,
                                                                  const Make& make) {
  parts_[rank] = {.color = color, .key = key};
  MF_RETURN_IF_ERROR(Meet(rank, "split"));
  std::vector<int> members;
  for (int r = 0; r < world_size(); ++r) {
    if (parts_[r].color == color) members.push_back(r);
  }
  std::stable_sort(members.begin(), members.end(),
                   [&](int a, int b) { return parts_[a].key < parts_[b].key; });
  if (members[0] == rank) {
    absl::StatusOr<std::shared_ptr<void>> made = make(members);
    if (made.ok()) {
      parts_[rank].made = *std::move(made);
    } else {
      Fail(made.status());
    }
  }
  MF_RETURN_IF_ERROR(Meet(rank, "split"));
  const Part<void> part = {
      parts_[members[0]].made,
      static_cast<int>(std::find(members.begin(), members.end(), rank) - members.begin())};
  // Nobody clears or writes a part before all have read.
  MF_RETURN_IF_ERROR(Meet(rank, "split"));
  parts_[rank].made = nullptr;
  return part;
}

}  // namespace mirrorflow
