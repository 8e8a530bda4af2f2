// SPDX-License-Identifier: Apache-2.0
//
// ReplicaTeam: runs work on one thread per replica; the caller's thread runs replica 0. Between
// steps the other threads spin for a while, then sleep. A step takes no lock.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_REPLICA_TEAM_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_REPLICA_TEAM_H_

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace mirrorflow {

// The replicas that compete for the same cores: those of this process, and those of other processes
// that may use the same cores.
struct CoreSharers {
  int first = 0;  // index of this process's first replica
  int count = 0;  // 0: only this process's replicas
};

class ReplicaTeam {
 public:
  // If `pin`, pins thread i to the cores of replica `sharers.first + i`, an even split of the cores
  // that the process may use. The caller's thread is not pinned.
  ReplicaTeam(int size, bool pin, CoreSharers sharers = {});
  ~ReplicaTeam();

  // Returns ResourceExhausted if not all threads could be started. In this case, do not call Run.
  const absl::Status& status() const { return status_; }

  int size() const { return static_cast<int>(members_.size()) + 1; }
  // Calls work(i) for every replica i, each on its own thread, and returns when all calls have
  // returned. Only one thread may call it at a time.
  void Run(absl::FunctionRef<void(int)> work);

 private:
  struct alignas(64) Member {
    std::atomic<uint64_t> go{0};    // number of the latest requested run
    std::atomic<uint64_t> done{0};  // number of the latest completed run
    std::thread thread;
  };
  void Loop(int replica, Member& member);

  std::vector<std::unique_ptr<Member>> members_;  // replicas 1, 2, …
  const absl::FunctionRef<void(int)>* work_ = nullptr;
  std::atomic<bool> stop_{false};
  uint64_t run_ = 0;
  int spins_ = 0;
  absl::Status status_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_REPLICA_TEAM_H_
