// SPDX-License-Identifier: Apache-2.0
//
// ProgressThread: moves what is in flight between memory domains where no rank of this process
// does: between steps, and with a core to spare also while the ranks compute. Without it, a rank
// that waits for another one would wait for that one's next call on its communicator.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_PROGRESS_THREAD_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_PROGRESS_THREAD_H_

#include <poll.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/core/mutex.h"

namespace mirrorflow {

class ProgressThread {
 public:
  // One rank's work. Both are called from the thread.
  class Rank {
   public:
    virtual ~Rank() = default;
    // Moves what it can without waiting; returns whether anything moved.
    virtual absl::StatusOr<bool> Progress() = 0;
    // Adds what poll() must wait for until Progress can move something. Returns false if there is
    // no need to wait. Adds nothing if nothing is in flight.
    virtual bool PrepareToWait(std::vector<pollfd>* events) = 0;
  };

  // `has_core`: a core is free for the thread, so it does not yield to the ranks.
  static absl::StatusOr<std::shared_ptr<ProgressThread>> Create(bool has_core);
  ~ProgressThread();

  void Add(Rank* rank);
  // Blocks until the thread no longer uses `rank`.
  void Remove(Rank* rank);

  // Called by a rank that has begun something.
  void Begun() {
    if (has_core_) Wake();
  }
  // Called by a rank that will make no calls for a while, and by the same when it goes on.
  void Rest();
  void GoOn();

 private:
  ProgressThread(bool has_core, int timer, int wake);
  void Loop();
  // Makes progress until nothing is in flight or the ranks continue.
  void MakeProgress();
  void Wake();

  const bool has_core_;
  const int timer_, wake_;  // a timerfd and an eventfd
  std::atomic<int> resting_{0};
  std::atomic<bool> stop_{false};
  Mutex mu_;
  std::vector<Rank*> ranks_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_PROGRESS_THREAD_H_
