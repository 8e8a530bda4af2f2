// SPDX-License-Identifier: Apache-2.0
//
// The test suite that every WorkerGroup must pass. The workers are threads of the test. An
// implementation's test instantiates it with a factory, as in memory_worker_group_test.cc.
#ifndef MIRRORFLOW_TESTS_CONFORMANCE_WORKER_GROUP_CONFORMANCE_H_
#define MIRRORFLOW_TESTS_CONFORMANCE_WORKER_GROUP_CONFORMANCE_H_

#include <functional>
#include <memory>
#include <vector>

#include "framework/workers/worker_group.h"
#include "gtest/gtest.h"

namespace mirrorflow {

struct WorkerGroups {
  std::shared_ptr<void> cluster = nullptr;           // must outlive the groups
  std::vector<std::unique_ptr<WorkerGroup>> groups;  // by worker
};
using WorkerGroupsFactory = std::function<WorkerGroups(int num_workers)>;

class WorkerGroupConformance : public testing::TestWithParam<WorkerGroupsFactory> {
 protected:
  static constexpr int kWorkers = 3;

  // Sets up groups of workers that have all joined the first incarnation.
  WorkerGroupConformance();

  // Runs `work` on one thread per worker.
  void OnEach(const std::function<void(WorkerGroup&)>& work);
  WorkerGroup& group(int worker) { return *workers_.groups[worker]; }

 private:
  const WorkerGroups workers_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_CONFORMANCE_WORKER_GROUP_CONFORMANCE_H_
