// SPDX-License-Identifier: Apache-2.0
#include "train/data/parallel_rows.h"

#include <utility>

#include "framework/core/mutex.h"
#include "framework/core/status.h"
#include "framework/core/thread.h"

namespace mirrorflow {

ParallelRows::ParallelRows(int num_threads) {
  while (this->num_threads() < num_threads) {
    absl::StatusOr<std::thread> thread = StartThread("rows", [this] { Loop(); });
    if (!thread.ok()) break;  // continue with fewer threads
    threads_.push_back(*std::move(thread));
  }
}

ParallelRows::~ParallelRows() {
  {
    MutexLock lock(&mu_);
    stopped_ = true;
  }
  begin_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

absl::Status ParallelRows::Run(int64_t count, Function f) {
  MutexLock lock(&mu_);
  f_ = &f;
  count_ = count;
  next_ = 0;
  error_ = absl::OkStatus();
  ++round_;
  if (count > 1 && !threads_.empty()) begin_.NotifyAll();
  lock.Unlock();
  Work();
  lock.Lock();
  while (working_ > 0) end_.Wait(lock);
  f_ = nullptr;
  return std::exchange(error_, absl::OkStatus());
}

void ParallelRows::Work() {
  MutexLock lock(&mu_);
  while (f_ != nullptr && next_ < count_ && error_.ok()) {
    const int64_t number = next_++;
    const Function& f = *f_;
    ++working_;
    lock.Unlock();
    absl::Status status = CatchOutOfMemory([&] { return f(number); });
    lock.Lock();
    if (!status.ok() && (error_.ok() || number < failed_)) {
      error_ = std::move(status);
      failed_ = number;
    }
    if (--working_ == 0) end_.NotifyOne();
  }
}

void ParallelRows::Loop() {
  for (int64_t done = 0;;) {
    {
      MutexLock lock(&mu_);
      while (!stopped_ && round_ == done) begin_.Wait(lock);
      if (stopped_) return;
      done = round_;
    }
    Work();
  }
}

}  // namespace mirrorflow
