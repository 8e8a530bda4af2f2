// SPDX-License-Identifier: Apache-2.0
//
// The contract of WorkerGroup over the coordination service.
#include <memory>
#include <utility>

#include "gtest/gtest.h"
#include "tests/conformance/worker_group_conformance.h"
#include "tests/support/coordination.h"

namespace mirrorflow {
namespace {

WorkerGroups CreateGroups(int num_workers) {
  auto cluster = std::make_shared<CoordinatedCluster>(num_workers);
  WorkerGroups workers;
  for (const auto& client : cluster->clients()) workers.groups.push_back(client->NewGroup());
  workers.cluster = std::move(cluster);
  return workers;
}

INSTANTIATE_TEST_SUITE_P(Coordination, WorkerGroupConformance, testing::Values(CreateGroups));

}  // namespace
}  // namespace mirrorflow
