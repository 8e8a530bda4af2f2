// SPDX-License-Identifier: Apache-2.0
//
// FirstFailure: a status that the processes of a team share and set at most once.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_FIRST_FAILURE_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_FIRST_FAILURE_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "framework/core/mutex.h"

namespace mirrorflow {

class FirstFailure {
 public:
  // One process's failure message. Only that process writes it.
  struct Text {
    uint32_t size = 0;
    char bytes[16380] = {};
  };
  // State that the processes share, initially zeroed. If a process is killed while it sets a
  // failure, the failure is not set.
  struct Shared {
    std::atomic<int> setter{0};  // 1 + the process that set the failure; 0 if no process has
  };

  // `texts` has one entry for each process. Both arguments must outlive the FirstFailure.
  FirstFailure(Shared* shared, Text* texts, int process)
      : shared_(*shared), texts_(texts), process_(process) {}

  // Sets the failure unless it is already set. Truncates a long message.
  void Set(const absl::Status& why);
  // Returns OK until a process has set the failure.
  absl::Status Get() const;

 private:
  Shared& shared_;
  Text* const texts_;
  const int process_;
  mutable Mutex mu_;  // not shared between processes
  mutable absl::Status known_ ABSL_GUARDED_BY(mu_);
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_FIRST_FAILURE_H_
