// SPDX-License-Identifier: Apache-2.0
//
// Tests the WorkerGroup contract over the coordination service.
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "framework/core/monotonic_time.h"
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

// A worker detects a failure and closes its connections. Another worker, which only sees its
// connection close, can report first.
TEST(CoordinationWorkerGroupTest, CauseOfLostConnectionIsReportedAsFailure) {
  const WorkerGroups workers = CreateGroups(2);
  const MonotonicTime deadline = MonotonicTime::Now() + absl::Seconds(60);
  const absl::Status cause = absl::DataLossError("damaged frame");
  std::vector<absl::Status> failures(2);
  std::vector<std::thread> threads;
  for (int w = 0; w < 2; ++w) {
    threads.emplace_back([&, w] {
      EXPECT_TRUE(workers.groups[w]->Join(deadline).ok());
      if (w == 1) absl::SleepFor(absl::Milliseconds(100));
      failures[w] = workers.groups[w]->ReportFailure(
          w == 1 ? cause : absl::UnavailableError("the other end has closed the connection"),
          deadline);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures[0], cause);
  EXPECT_EQ(failures[1], cause);
}

TEST(CoordinationWorkerGroupTest, LostConnectionWithoutOtherCauseIsReportedAsFailure) {
  const WorkerGroups workers = CreateGroups(1);
  const MonotonicTime deadline = MonotonicTime::Now() + absl::Seconds(60);
  ASSERT_TRUE(workers.groups[0]->Join(deadline).ok());
  const absl::Status lost = absl::UnavailableError("the other end has closed the connection");
  EXPECT_EQ(workers.groups[0]->ReportFailure(lost, deadline), lost);
}

}  // namespace
}  // namespace mirrorflow
