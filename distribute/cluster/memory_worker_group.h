// SPDX-License-Identifier: Apache-2.0
//
// Worker groups of workers that are in one process, for tests of what sessions of several workers
// do.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_MEMORY_WORKER_GROUP_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_MEMORY_WORKER_GROUP_H_

#include <memory>
#include <vector>

#include "framework/session/worker_group.h"

namespace mirrorflow {

class MemoryWorkerGroup : public WorkerGroup {
 public:
  // While a worker is silent, what it tells the others is lost, and its waits find nothing until
  // their deadline. Any thread.
  virtual void SetSilent(bool silent) = 0;
};

// One for each of `num_workers` workers.
std::vector<std::unique_ptr<MemoryWorkerGroup>> CreateMemoryWorkerGroups(int num_workers);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_MEMORY_WORKER_GROUP_H_
