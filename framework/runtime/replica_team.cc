// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/replica_team.h"

#include <pthread.h>
#include <sched.h>

#include "absl/strings/str_cat.h"
#include "framework/core/thread.h"
#include "framework/runtime/usable_cpus.h"

namespace mirrorflow {
namespace {

// About 50 microseconds: longer than the gap between two steps when the data is ready, and too
// short to matter, even for power consumption.
constexpr int kSpins = 20000;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Divides the cores among the replicas; if there are too few, several replicas share a core.
cpu_set_t CoresOf(int replica, int replicas, const std::vector<int>& cores) {
  const int count = static_cast<int>(cores.size());
  int first = replica % count, end = first + 1;
  if (replicas <= count) {
    first = replica * count / replicas;
    end = (replica + 1) * count / replicas;
  }
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int i = first; i < end; ++i) CPU_SET(cores[i], &set);
  return set;
}

// Waits until `word` is at least `value`.
void Await(const std::atomic<uint64_t>& word, uint64_t value, int spins) {
  for (int i = 0; i < spins; ++i) {
    if (word.load(std::memory_order_acquire) >= value) return;
    Pause();
  }
  for (uint64_t seen = word.load(std::memory_order_acquire); seen < value;
       seen = word.load(std::memory_order_acquire)) {
    word.wait(seen, std::memory_order_acquire);
  }
}

}  // namespace

ReplicaTeam::ReplicaTeam(int size, bool pin, CoreSharers sharers) {
  const std::vector<int> cores = UsableCpus();
  if (sharers.count < sharers.first + size) sharers = {.first = 0, .count = size};
  // With fewer cores than replicas, spinning would take a core from a replica that has work.
  spins_ = sharers.count <= NumUsableCpus() ? kSpins : 0;
  for (int i = 1; i < size; ++i) members_.push_back(std::make_unique<Member>());
  for (int i = 1; i < size; ++i) {
    Member& member = *members_[i - 1];
    absl::StatusOr<std::thread> thread =
        StartThread(absl::StrCat("replica threads: thread ", i, " of ", size - 1),
                    [this, i, &member] { Loop(i, member); });
    if (!thread.ok()) {
      members_.resize(i - 1);
      status_ = thread.status();
      return;
    }
    member.thread = *std::move(thread);
    if (pin && !cores.empty()) {
      const cpu_set_t set = CoresOf(sharers.first + i, sharers.count, cores);
      // If pinning is not permitted, the operating system places the thread.
      pthread_setaffinity_np(member.thread.native_handle(), sizeof set, &set);
    }
  }
}

ReplicaTeam::~ReplicaTeam() {
  stop_.store(true, std::memory_order_relaxed);
  ++run_;
  for (auto& member : members_) {
    member->go.store(run_, std::memory_order_release);
    member->go.notify_one();
  }
  for (auto& member : members_) member->thread.join();
}

void ReplicaTeam::Loop(int replica, Member& member) {
  for (uint64_t run = 1;; ++run) {
    Await(member.go, run, spins_);
    if (stop_.load(std::memory_order_relaxed)) return;
    (*work_)(replica);
    member.done.store(run, std::memory_order_release);
    member.done.notify_one();
  }
}

void ReplicaTeam::Run(absl::FunctionRef<void(int)> work) {
  if (members_.empty()) return work(0);
  work_ = &work;
  ++run_;
  for (auto& member : members_) {
    member->go.store(run_, std::memory_order_release);
    member->go.notify_one();  // makes a system call only if the thread sleeps
  }
  work(0);
  for (auto& member : members_) Await(member->done, run_, spins_);
  work_ = nullptr;
}

}  // namespace mirrorflow
