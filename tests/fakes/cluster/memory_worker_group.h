// SPDX-License-Identifier: Apache-2.0
//
// The worker groups of several workers in one process, for tests of multi-worker sessions.
#ifndef MIRRORFLOW_TESTS_FAKES_CLUSTER_MEMORY_WORKER_GROUP_H_
#define MIRRORFLOW_TESTS_FAKES_CLUSTER_MEMORY_WORKER_GROUP_H_

#include <memory>
#include <vector>

#include "framework/workers/worker_group.h"

namespace mirrorflow {

class MemoryWorkerGroup : public WorkerGroup {
 public:
  // While a worker is silent, it is not notified of failures. Its calls have no effect on other
  // workers, and block until the silence ends or their deadline passes. Thread-safe.
  virtual void SetSilent(bool silent) = 0;
};

// Returns one group for each of `num_workers` workers.
std::vector<std::unique_ptr<MemoryWorkerGroup>> CreateMemoryWorkerGroups(int num_workers);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_FAKES_CLUSTER_MEMORY_WORKER_GROUP_H_
