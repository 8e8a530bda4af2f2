// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/cluster/memory_worker_group.h"

#include <utility>

#include "framework/core/monotonic_time.h"
#include "gtest/gtest.h"
#include "tests/conformance/worker_group_conformance.h"

namespace mirrorflow {
namespace {

WorkerGroups CreateGroups(int num_workers) {
  WorkerGroups workers;
  for (auto& group : CreateMemoryWorkerGroups(num_workers)) {
    workers.groups.push_back(std::move(group));
  }
  return workers;
}

INSTANTIATE_TEST_SUITE_P(Memory, WorkerGroupConformance, testing::Values(CreateGroups));

MonotonicTime Soon() { return MonotonicTime::Now() + absl::Milliseconds(20); }

TEST(MemoryWorkerGroupTest, SilentWorkerIsUnreachableAndTimesOut) {
  const auto groups = CreateMemoryWorkerGroups(2);
  const auto group = [&](int worker) -> MemoryWorkerGroup& { return *groups[worker]; };
  group(1).SetSilent(true);
  EXPECT_EQ(group(1).Put("key", "", Soon()).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(group(0).Get("key", Soon()).status().code(), absl::StatusCode::kDeadlineExceeded);
  const absl::Status own = absl::DataLossError("own");
  EXPECT_EQ(group(1).ReportFailure(own, Soon()), own);
  EXPECT_EQ(group(0).Put("other", "", Soon()), absl::OkStatus());
  group(1).SetSilent(false);
  EXPECT_EQ(group(1).Get("other", Soon()).status(), absl::OkStatus());
}

}  // namespace
}  // namespace mirrorflow
