// SPDX-License-Identifier: Apache-2.0
#include "framework/session/runner_pool.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/core/mutex.h"

namespace mirrorflow {

RunnerPool::RunnerPool(std::unique_ptr<StepRunner> first, MakeRunner make, const Options& options)
    : first_(std::move(first)),
      make_(std::move(make)),
      options_(options),
      limit_(options.max_runners) {
  // Reserve the memory here, so that no allocation can fail between the updates of word_ and the
  // members.
  others_.reserve(options.max_runners);
  lent_.reserve(options.max_runners + 1);
}

void RunnerPool::BeginQueue() {
  int word = word_.load(std::memory_order_relaxed);
  while (word != kQueued) {
    if (!word_.compare_exchange_weak(word, kQueued, std::memory_order_acquire,
                                     std::memory_order_relaxed)) {
      continue;
    }
    if (word == 0) return;
    lent_.assign(1, first_.get());
    exclusive_ = word == kExclusive;
    return;
  }
}

void RunnerPool::EndQueue() {
  if (lent_.empty() && waiting_.empty() && making_ == 0) word_.store(0, std::memory_order_release);
}

bool RunnerPool::IsLent(const StepRunner& runner) const {
  return absl::c_linear_search(lent_, &runner);
}

bool RunnerPool::MayTake(int kind) const {
  const int busy = static_cast<int>(lent_.size()) + making_;
  if (!waiting_for_memory_.empty()) return false;
  return kind == kExclusive ? busy == 0 : !exclusive_ && busy < limit_;
}

StepRunner* RunnerPool::FindFree() {
  if (!IsLent(*first_)) return first_.get();
  for (const auto& other : others_) {
    if (!IsLent(*other)) return other.get();
  }
  return nullptr;
}

bool RunnerPool::AwaitTurn(MutexLock& lock, std::list<int>& line, int kind,
                           absl::FunctionRef<bool()> may_go) {
  const MonotonicTime deadline = MonotonicTime::Now() + options_.timeout;
  const auto place = line.insert(line.end(), kind);
  const bool came =
      changed_.WaitUntil(lock, deadline, [&] { return place == line.begin() && may_go(); });
  line.erase(place);
  changed_.NotifyAll();  // the next in line may be able to proceed
  return came;
}

absl::StatusOr<RunnerLease> RunnerPool::Queue(int kind) {
  MutexLock lock(&mutex_);
  BeginQueue();
  if (options_.refuse_others && !MayTake(kind)) {
    return absl::FailedPreconditionError(
        "session: in use by another thread; call it from one thread at a time, because all workers "
        "must make the same calls in the same order");
  }
  if (!AwaitTurn(lock, waiting_, kind,
                 [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return MayTake(kind); })) {
    EndQueue();
    return absl::DeadlineExceededError(
        absl::StrCat("session: timed out after ", absl::FormatDuration(options_.timeout),
                     " waiting for other runs (", lent_.size(),
                     " in progress); wait for them or increase step_timeout"));
  }
  exclusive_ = kind == kExclusive;
  StepRunner* runner = FindFree();
  if (runner == nullptr) {
    ++making_;
    lock.Unlock();
    absl::StatusOr<std::unique_ptr<StepRunner>> made = CatchOutOfMemory(make_);
    lock.Lock();
    --making_;
    if (!made.ok()) {
      changed_.NotifyAll();
      EndQueue();
      return made.status();
    }
    runner = others_.emplace_back(*std::move(made)).get();
  }
  lent_.push_back(runner);
  return RunnerLease(this, runner, kind == kExclusive);
}

void RunnerPool::ReturnInTurn(StepRunner* runner, bool is_exclusive) {
  MutexLock lock(&mutex_);
  std::erase(lent_, runner);
  if (is_exclusive) exclusive_ = false;
  changed_.NotifyAll();
  EndQueue();
}

bool RunnerPool::MakeRoom(const StepRunner& runner, int64_t bytes) {
  const int64_t available = options_.max_bytes - options_.shared_bytes();
  const auto others_have = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    int64_t sum = &runner != first_.get() ? first_->reserved_bytes() : 0;
    for (const auto& other : others_) sum += other.get() != &runner ? other->reserved_bytes() : 0;
    return sum;
  };
  if (bytes <= available - others_have()) return true;
  const auto free = [&](StepRunner& other) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (&other != &runner && !IsLent(other)) other.FreeMemory();
  };
  free(*first_);
  for (const auto& other : others_) free(*other);
  // A run may always proceed if it is the only one in progress.
  const int64_t beside = others_have();
  return beside == 0 || bytes <= available - beside;
}

absl::Status RunnerPool::ReserveMore(StepRunner& runner, int64_t bytes) {
  MutexLock lock(&mutex_);
  if (!waiting_for_memory_.empty() || !MakeRoom(runner, bytes)) {
    runner.FreeMemory();  // other runs may be waiting for memory
    changed_.NotifyAll();
    if (!AwaitTurn(lock, waiting_for_memory_, kShared, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
          return MakeRoom(runner, bytes);
        })) {
      return absl::DeadlineExceededError(absl::StrCat(
          "session: timed out after ", absl::FormatDuration(options_.timeout), " waiting for ",
          bytes, " bytes of memory in use by other runs; wait for them or increase max_bytes"));
    }
  }
  runner.set_reserved_bytes(bytes);
  return absl::OkStatus();
}

void RunnerPool::DropEvictedNow(const StepCache& cache) {
  MutexLock lock(&mutex_);
  evictions_.store(cache.evictions(), std::memory_order_relaxed);
  for (const auto& other : others_) {
    if (!IsLent(*other)) other->DropEvicted().IgnoreError();  // a leased runner drops its own
  }
}

void RunnerPool::SetTraced(bool traced) {
  MutexLock lock(&mutex_);
  limit_ = traced ? 1 : options_.max_runners;
}

}  // namespace mirrorflow
