// SPDX-License-Identifier: Apache-2.0
#include "train/data/prefetch.h"

#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/mutex.h"
#include "framework/core/status.h"
#include "framework/core/thread.h"

namespace mirrorflow {
namespace {

class PrefetchSource final : public BatchSource {
 public:
  PrefetchSource(std::unique_ptr<BatchSource> input, int depth)
      : input_(std::move(input)), slots_(depth) {
    absl::StatusOr<std::thread> thread = StartThread("prefetch", [this] { Fill(); });
    if (thread.ok()) {
      thread_ = *std::move(thread);
    } else {
      slots_[0].result = thread.status();
      ready_ = 1;
    }
  }

  ~PrefetchSource() override {
    {
      MutexLock lock(&mu_);
      stopped_ = true;
    }
    room_.NotifyOne();
    if (thread_.joinable()) thread_.join();
  }

  absl::StatusOr<bool> Next(SourceBatch* batch) override {
    batch->components.clear();  // before waiting, so that the thread can reuse the buffers
    MutexLock lock(&mu_);
    while (ready_ == 0) filled_.Wait(lock);
    Slot& slot = slots_[begin_];
    // Leave the end or an error in its slot, so that later calls return it as well.
    if (!slot.result.ok() || !*slot.result) return slot.result;
    std::swap(*batch, slot.batch);
    begin_ = (begin_ + 1) % slots_.size();
    --ready_;
    lock.Unlock();
    room_.NotifyOne();
    return true;
  }

 private:
  struct Slot {
    SourceBatch batch;
    absl::StatusOr<bool> result = false;
  };

  void Fill() {
    for (size_t i = 0;; i = (i + 1) % slots_.size()) {
      {
        MutexLock lock(&mu_);
        while (!stopped_ && ready_ == slots_.size()) room_.Wait(lock);
        if (stopped_) return;
      }
      // Until ready_ counts the slot, only this thread accesses it.
      absl::StatusOr<bool> result =
          CatchOutOfMemory([&] { return input_->Next(&slots_[i].batch); });
      const bool more = result.ok() && *result;
      {
        MutexLock lock(&mu_);
        slots_[i].result = std::move(result);
        ++ready_;
      }
      filled_.NotifyOne();
      if (!more) return;
    }
  }

  const std::unique_ptr<BatchSource> input_;  // only thread_ calls it
  Mutex mu_;
  CondVar room_, filled_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  // How many slots have results, beginning with slots_[begin_].
  size_t ready_ ABSL_GUARDED_BY(mu_) = 0;
  size_t begin_ = 0;         // accessed only by the reader
  std::vector<Slot> slots_;  // a ring buffer
  std::thread thread_;
};

}  // namespace

std::unique_ptr<BatchSource> Prefetch(std::unique_ptr<BatchSource> input, int depth) {
  MF_CHECK(depth >= 1);
  return std::make_unique<PrefetchSource>(std::move(input), depth);
}

}  // namespace mirrorflow
