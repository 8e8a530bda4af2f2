// SPDX-License-Identifier: Apache-2.0
//
// Where the host threads of the ranks of one process meet: a backend whose collectives run on a GPU
// agrees here on what it enqueues. A lock and a condition, as the GPU has work meanwhile.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_RANK_MEETING_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_RANK_MEETING_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace mirrorflow {

class RankMeeting {
 public:
  // Waits last at most `timeout`, which may be infinite.
  RankMeeting(int world_size, absl::Duration timeout);

  int world_size() const { return world_size_; }

  // The first failure of any rank, which all have from then on.
  absl::Status status() const;
  // Whether `why` is the first one. Ends all waits. Any thread.
  bool Fail(const absl::Status& why);

  // Waits until all ranks are here, for `what`. All that a rank has written before, the others see.
  // DeadlineExceeded, for all, if one does not come.
  absl::Status Meet(int rank, absl::string_view what);

 private:
  const int world_size_;
  const absl::Duration timeout_;
  mutable std::mutex mu_;
  std::condition_variable changed_;
  absl::Status failure_;
  uint64_t meetings_ = 0;  // that are over
  int present_ = 0;        // at the next one
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_RANK_MEETING_H_
