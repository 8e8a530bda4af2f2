// SPDX-License-Identifier: Apache-2.0
//
// ProgressThread: moves the data in flight between memory domains while no rank of this process
// does so. It works between steps and, if a core is free, also while the ranks compute. Without it,
// a rank that waits for a peer waits until that peer next calls its communicator.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_PROGRESS_THREAD_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_PROGRESS_THREAD_H_

#include <poll.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/core/mutex.h"
#include "framework/core/owned_socket.h"

namespace mirrorflow {

class ProgressThread {
 public:
  // One rank's transfers. The ProgressThread calls both functions.
  class Rank {
   public:
    virtual ~Rank() = default;
    // Moves data without waiting. Returns whether anything moved.
    virtual absl::StatusOr<bool> Progress() = 0;
    // Adds the events that poll() must wait for before Progress can move data. Returns false if
    // Progress can move data now. Adds nothing if nothing is in flight.
    virtual bool PrepareToWait(std::vector<pollfd>* events) = 0;
  };

  // `has_core`: whether a core is free for the thread. If so, it does not yield to the ranks.
  static absl::StatusOr<std::shared_ptr<ProgressThread>> Create(bool has_core);
  ~ProgressThread();

  void Add(Rank* rank);
  // Blocks until the thread no longer uses `rank`.
  void Remove(Rank* rank);

  // Called by a rank that has begun a transfer.
  void Begun() {
    if (has_core_) Wake();
  }
  // A rank calls RankPauses before it stops making calls for a while, and RankResumes when it makes
  // calls again.
  void RankPauses();
  void RankResumes();

 private:
  ProgressThread(bool has_core, OwnedSocket timer, OwnedSocket wake)
      : has_core_(has_core), timer_(std::move(timer)), wake_(std::move(wake)) {}
  void Loop();
  // Makes progress until nothing is in flight or, without a free core, until all ranks have
  // resumed.
  void MakeProgress();
  void Wake();

  const bool has_core_;
  const OwnedSocket timer_, wake_;  // a timerfd and an eventfd
  std::atomic<int> paused_ranks_{0};
  std::atomic<bool> stop_{false};
  Mutex mu_;
  std::vector<Rank*> ranks_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_PROGRESS_THREAD_H_
