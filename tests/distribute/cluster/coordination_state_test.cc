// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination_state.h"

#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "distribute/cluster/memory_worker_group.h"
#include "framework/core/monotonic_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

// A worker that has given up does not pass a barrier together with one that comes later.
TEST(CoordinationStateTest, ValueOfWorkerThatGaveUpDoesNotCount) {
  const std::vector<std::unique_ptr<MemoryWorkerGroup>> groups = CreateMemoryWorkerGroups(2);
  const auto in = [](absl::Duration wait) { return MonotonicTime::Now() + wait; };
  std::thread joins([&] { EXPECT_TRUE(groups[1]->Join(in(absl::Seconds(30))).ok()); });
  EXPECT_TRUE(groups[0]->Join(in(absl::Seconds(30))).ok());
  joins.join();
  const absl::Duration moment = absl::Milliseconds(50);
  EXPECT_TRUE(absl::IsDeadlineExceeded(groups[0]->AllGather("x", "early", in(moment)).status()));
  EXPECT_TRUE(absl::IsDeadlineExceeded(groups[1]->AllGather("x", "late", in(moment)).status()));
  // Together they do.
  std::thread second(
      [&] { EXPECT_TRUE(groups[1]->AllGather("x", "b", in(absl::Seconds(30))).ok()); });
  const auto values = groups[0]->AllGather("x", "a", in(absl::Seconds(30)));
  second.join();
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT(*values, testing::ElementsAre("a", "b"));
}

}  // namespace
}  // namespace mirrorflow
