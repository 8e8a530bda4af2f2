// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/progress_thread.h"

#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "framework/core/mutex.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"
#include "framework/core/thread.h"

namespace mirrorflow {
namespace {

// Longer than the gap between two steps of a training loop.
constexpr timespec kPatience = {.tv_sec = 0, .tv_nsec = 1'000'000};
constexpr int kMaxWaitMs = 10;

void Clear(int fd) {
  uint64_t count;
  if (read(fd, &count, sizeof count) < 0) return;  // nothing to clear
}

}  // namespace

ProgressThread::ProgressThread(bool has_core, int timer, int wake)
    : has_core_(has_core), timer_(timer), wake_(wake) {}

absl::StatusOr<std::shared_ptr<ProgressThread>> ProgressThread::Create(bool has_core) {
  const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  const int error = errno;
  std::shared_ptr<ProgressThread> made(new ProgressThread(has_core, timer, wake));
  if (timer < 0 || wake < 0) {
    return SystemError(error, "progress thread: cannot create a timerfd or an eventfd");
  }
  MF_ASSIGN_OR_RETURN(made->thread_,
                      StartThread("data between hosts", [self = made.get()] { self->Loop(); }));
  return made;
}

ProgressThread::~ProgressThread() {
  stop_ = true;
  Wake();
  if (thread_.joinable()) thread_.join();
  if (timer_ >= 0) close(timer_);
  if (wake_ >= 0) close(wake_);
}

void ProgressThread::Wake() {
  if (wake_ >= 0) eventfd_write(wake_, 1);
}

void ProgressThread::Add(Rank* rank) {
  MutexLock lock(&mu_);
  ranks_.push_back(rank);
}

void ProgressThread::Remove(Rank* rank) {
  MutexLock lock(&mu_);
  ranks_.erase(std::remove(ranks_.begin(), ranks_.end(), rank), ranks_.end());
}

void ProgressThread::RankPauses() {
  paused_ranks_.fetch_add(1);
  const itimerspec after = {.it_interval = {}, .it_value = kPatience};
  timerfd_settime(timer_, 0, &after, nullptr);
}

void ProgressThread::RankResumes() {
  paused_ranks_.fetch_sub(1);
  const itimerspec never = {};
  timerfd_settime(timer_, 0, &never, nullptr);
}

void ProgressThread::Loop() {
  while (!stop_) {
    pollfd events[] = {{.fd = timer_, .events = POLLIN, .revents = 0},
                       {.fd = wake_, .events = POLLIN, .revents = 0}};
    poll(events, std::size(events), -1);
    Clear(timer_);
    Clear(wake_);
    MakeProgress();
  }
}

void ProgressThread::MakeProgress() {
  std::vector<pollfd> events;
  while (!stop_ && (has_core_ || paused_ranks_ > 0)) {
    bool may_wait = true;
    events.assign({{.fd = wake_, .events = POLLIN, .revents = 0}});
    {
      MutexLock lock(&mu_);
      for (Rank* rank : ranks_) {
        const absl::StatusOr<bool> moved = rank->Progress();
        if (!moved.ok()) continue;  // the rank's next call returns the failure
        may_wait = !*moved && rank->PrepareToWait(&events) && may_wait;
      }
    }
    if (!may_wait) continue;
    if (events.size() == 1) return;  // nothing is in flight
    poll(events.data(), events.size(), kMaxWaitMs);
  }
}

}  // namespace mirrorflow
