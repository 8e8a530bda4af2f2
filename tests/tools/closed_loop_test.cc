// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <thread>

#include "gtest/gtest.h"
#include "tools/bench/statistics.h"

namespace mirrorflow {
namespace {

TEST(RunClosedLoopTest, CountsRequestsOfAllClients) {
  std::atomic<int64_t> calls[3] = {};
  const auto load = RunClosedLoop(3, absl::Milliseconds(50), [&](int client) {
    ++calls[client];
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return absl::OkStatus();
  });
  ASSERT_TRUE(load.ok()) << load.status();
  for (const auto& count : calls) EXPECT_GT(count, 0);
  EXPECT_EQ(load->requests, calls[0] + calls[1] + calls[2]);
  EXPECT_GE(load->seconds, 0.05);
  EXPECT_GE(load->p50_ms, 1);
  EXPECT_GE(load->p99_ms, load->p50_ms);
}

TEST(RunClosedLoopTest, LatencyIsThatOfOneRequest) {
  int calls = 0;
  const auto load = RunClosedLoop(1, absl::Milliseconds(100), [&](int) {
    std::this_thread::sleep_for(std::chrono::milliseconds(++calls % 2 == 0 ? 10 : 1));
    return absl::OkStatus();
  });
  ASSERT_TRUE(load.ok()) << load.status();
  EXPECT_GE(load->p99_ms, 10 * 0.99);
  EXPECT_LE(load->p50_ms, load->seconds * 1e3);
}

TEST(RunClosedLoopTest, CallsAtLeastOnce) {
  const auto load = RunClosedLoop(2, absl::ZeroDuration(), [](int) { return absl::OkStatus(); });
  ASSERT_TRUE(load.ok()) << load.status();
  EXPECT_EQ(load->requests, 2);
}

TEST(RunClosedLoopTest, ErrorOfOneClientStopsAll) {
  std::atomic<int> calls = 0;
  const auto load = RunClosedLoop(2, absl::InfiniteDuration(), [&](int client) {
    return ++calls > 10 && client == 1 ? absl::InternalError("gone") : absl::OkStatus();
  });
  EXPECT_EQ(load.status(), absl::InternalError("gone"));
}

}  // namespace
}  // namespace mirrorflow
