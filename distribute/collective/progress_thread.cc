// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/progress_thread.h"

#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

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

void Clear(const OwnedSocket& descriptor) {
  uint64_t count;
  if (read(descriptor.fd(), &count, sizeof count) < 0) return;  // nothing to clear
}

}  // namespace

absl::StatusOr<std::shared_ptr<ProgressThread>> ProgressThread::Create(bool has_core) {
  OwnedSocket timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  OwnedSocket wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (timer.fd() < 0 || wake.fd() < 0) {
    return SystemError(errno, "progress thread: cannot create a timerfd or an eventfd");
  }
  std::shared_ptr<ProgressThread> made(
      new ProgressThread(has_core, std::move(timer), std::move(wake)));
  MF_ASSIGN_OR_RETURN(made->thread_,
                      StartThread("data between hosts", [self = made.get()] { self->Loop(); }));
  return made;
}

ProgressThread::~ProgressThread() {
  stop_ = true;
  Wake();
  if (thread_.joinable()) thread_.join();
}

void ProgressThread::Wake() { eventfd_write(wake_.fd(), 1); }

void ProgressThread::Add(Rank* rank) {
  MutexLock lock(&mu_);
  ranks_.push_back(rank);
}

void ProgressThread::Remove(Rank* rank) {
  MutexLock lock(&mu_);
  std::erase(ranks_, rank);
}

void ProgressThread::RankPauses() {
  paused_ranks_.fetch_add(1);
  const itimerspec after = {.it_interval = {}, .it_value = kPatience};
  timerfd_settime(timer_.fd(), 0, &after, nullptr);
}

void ProgressThread::RankResumes() {
  paused_ranks_.fetch_sub(1);
  const itimerspec never = {};
  timerfd_settime(timer_.fd(), 0, &never, nullptr);
}

void ProgressThread::Loop() {
  while (!stop_) {
    pollfd events[] = {{.fd = timer_.fd(), .events = POLLIN, .revents = 0},
                       {.fd = wake_.fd(), .events = POLLIN, .revents = 0}};
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
    events.assign({{.fd = wake_.fd(), .events = POLLIN, .revents = 0}});
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
