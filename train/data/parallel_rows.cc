// SPDX-License-Identifier: Apache-2.0
#include "train/data/parallel_rows.h"

#include <utility>

#include "framework/core/out_of_memory.h"
#include "framework/core/thread.h"

namespace mirrorflow {

ParallelRows::ParallelRows(int num_threads) {
  while (this->num_threads() < num_threads) {
    absl::StatusOr<std::thread> thread = StartThread("rows", [this] { Loop(); });
    if (!thread.ok()) break;  // the threads that could be started do the work
    threads_.push_back(*std::move(thread));
  }
}

ParallelRows::~ParallelRows() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    stopped_ = true;
  }
  begin_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

absl::Status ParallelRows::Run(int64_t count, Function f) {
  std::unique_lock<std::mutex> lock(mu_);
  f_ = &f;
  count_ = count;
  next_ = 0;
  error_ = absl::OkStatus();
  ++round_;
  if (count > 1 && !threads_.empty()) begin_.notify_all();
  lock.unlock();
  Work();
  lock.lock();
  end_.wait(lock, [this] { return working_ == 0; });
  f_ = nullptr;
  return std::exchange(error_, absl::OkStatus());
}

void ParallelRows::Work() {
  std::unique_lock<std::mutex> lock(mu_);
  while (f_ != nullptr && next_ < count_ && error_.ok()) {
    const int64_t number = next_++;
    ++working_;
    lock.unlock();
    absl::Status status = CatchOutOfMemory([&] { return (*f_)(number); });
    lock.lock();
    if (!status.ok() && (error_.ok() || number < failed_)) {
      error_ = std::move(status);
      failed_ = number;
    }
    if (--working_ == 0) end_.notify_one();
  }
}

void ParallelRows::Loop() {
  for (int64_t done = 0;;) {
    {
      std::unique_lock<std::mutex> lock(mu_);
      begin_.wait(lock, [&] { return stopped_ || round_ != done; });
      if (stopped_) return;
      done = round_;
    }
    Work();
  }
}

}  // namespace mirrorflow
