// SPDX-License-Identifier: Apache-2.0
//
// Worker groups of workers in one process, for tests of sessions with several workers.
#ifndef MIRRORFLOW_TESTS_FAKES_CLUSTER_MEMORY_WORKER_GROUP_H_
#define MIRRORFLOW_TESTS_FAKES_CLUSTER_MEMORY_WORKER_GROUP_H_

#include <memory>
#include <vector>

#include "framework/workers/worker_group.h"

namespace mirrorflow {

class MemoryWorkerGroup : public WorkerGroup {
 public:
  // While a worker is silent, its calls have no effect on other workers and wait until the silence
  // ends or their deadline passes, and it learns of no failures. Thread-safe.
  virtual void SetSilent(bool silent) = 0;
};

// Returns one group for each of `num_workers` workers.
std::vector<std::unique_ptr<MemoryWorkerGroup>> CreateMemoryWorkerGroups(int num_workers);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_FAKES_CLUSTER_MEMORY_WORKER_GROUP_H_
