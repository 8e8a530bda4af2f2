// SPDX-License-Identifier: Apache-2.0
//
// Where the host threads of the ranks of one process come together: backends whose collectives run
// on GPUs agree here on what they enqueue. A lock and a condition, as GPUs have work meanwhile.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_RANK_MEETING_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_RANK_MEETING_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace mirrorflow {

class RankMeeting {
 public:
  // Waits last at most `timeout`, which may be infinite.
  RankMeeting(int world_size, absl::Duration timeout);

  int world_size() const { return static_cast<int>(parts_.size()); }

  // The first failure of any rank, which all have from then on.
  absl::Status status() const;
  // Whether `why` is the first one. Ends all waits. Any thread.
  bool Fail(const absl::Status& why);

  // Waits until all ranks are here, for `what`. All that a rank has written before, the others see.
  // DeadlineExceeded, for all, if one does not come.
  absl::Status Meet(int rank, absl::string_view what);

  // As Communicator::Split. The first of the ranks that pass the same color calls make(those ranks,
  // in their new order) for all of them, and each gets what it made, and its new rank. Collective.
  template <typename T>
  struct Part {
    std::shared_ptr<T> group;
    int rank;
  };
  template <typename T>
  absl::StatusOr<Part<T>> Split(
      int rank, int color, int key,
      const std::function<absl::StatusOr<std::shared_ptr<T>>(const std::vector<int>&)>& make) {
    absl::StatusOr<Part<void>> part =
        SplitUntyped(rank, color, key,
                     [&](const std::vector<int>& members) -> absl::StatusOr<std::shared_ptr<void>> {
                       return make(members);
                     });
    if (!part.ok()) return part.status();
    return Part<T>{std::static_pointer_cast<T>(part->group), part->rank};
  }

 private:
  using Make = std::function<absl::StatusOr<std::shared_ptr<void>>(const std::vector<int>&)>;
  // What a rank passes to Split.
  struct SplitPart {
    int color = 0;
    int key = 0;
    std::shared_ptr<void> made;
  };
  absl::StatusOr<Part<void>> SplitUntyped(int rank, int color, int key, const Make& make);

  const absl::Duration timeout_;
  std::vector<SplitPart> parts_;  // each written by its rank, between two meetings
  mutable std::mutex mu_;
  std::condition_variable changed_;
  absl::Status failure_;
  uint64_t meetings_ = 0;  // that are over
  int present_ = 0;        // at the next one
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_RANK_MEETING_H_
