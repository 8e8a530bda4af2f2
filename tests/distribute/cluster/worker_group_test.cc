// SPDX-License-Identifier: Apache-2.0
//
// Tests the contract of WorkerGroup on MemoryWorkerGroup.
#include "framework/session/worker_group.h"

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "distribute/cluster/memory_worker_group.h"
#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

constexpr int kWorkers = 3;

absl::Time Soon() { return absl::Now() + absl::Milliseconds(20); }
absl::Time Late() { return absl::Now() + absl::Seconds(30); }

class WorkerGroupTest : public testing::Test {
 protected:
  void OnEach(const std::function<void(MemoryWorkerGroup&)>& work) {
    std::vector<std::thread> threads;
    for (const auto& group : groups_) threads.emplace_back([&] { work(*group); });
    for (std::thread& thread : threads) thread.join();
  }
  MemoryWorkerGroup& group(int worker) { return *groups_[worker]; }

 private:
  const std::vector<std::unique_ptr<MemoryWorkerGroup>> groups_ =
      CreateMemoryWorkerGroups(kWorkers);
};

TEST_F(WorkerGroupTest, JoinStartsSameIncarnationWithEmptyStoreOnAllWorkers) {
  for (uint64_t round = 1; round <= 3; ++round) {
    std::atomic<uint64_t> sum{0};
    OnEach([&](WorkerGroup& group) { sum += group.Join(Late()).value(); });
    EXPECT_EQ(sum, kWorkers * round);
    EXPECT_EQ(group(0).Put("key", "value", Late()), absl::OkStatus());
  }
  // Workers that joined an incarnation do not count towards the next one.
  for (int w = 0; w < kWorkers; ++w) EXPECT_FALSE(group(w).Join(Soon()).ok()) << w;
}

TEST_F(WorkerGroupTest, JoinWithMissingWorkerNamesIt) {
  absl::Status status;
  std::thread second([&] { group(1).Join(Soon()).status().IgnoreError(); });
  status = group(0).Join(absl::Now() + absl::Milliseconds(40)).status();
  second.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "missing worker")) << status;
  // Workers that gave up do not count towards the next join.
  EXPECT_FALSE(group(2).Join(Soon()).ok());
}

TEST_F(WorkerGroupTest, GetWaitsForTheKey) {
  std::thread late([&] {
    absl::SleepFor(absl::Milliseconds(5));
    EXPECT_EQ(group(2).Put("key", std::string("a\0b", 3), Late()), absl::OkStatus());
  });
  const auto value = group(0).Get("key", Late());
  late.join();
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(*value, std::string("a\0b", 3));
  EXPECT_EQ(group(1).Put("key", "again", Late()).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(group(1).Get("none", Soon()).status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(WorkerGroupTest, BarrierBlocksUntilAllWorkersArrive) {
  std::atomic<int> arrived{0};
  OnEach([&](WorkerGroup& group) {
    ++arrived;
    EXPECT_EQ(group.Barrier("b", Late()), absl::OkStatus());
    EXPECT_EQ(arrived, kWorkers);
  });
  const absl::Status alone = group(1).Barrier("c", Soon());
  EXPECT_EQ(alone.code(), absl::StatusCode::kDeadlineExceeded) << alone;
  EXPECT_TRUE(absl::StrContains(alone.message(), "missing worker 0, 2")) << alone;
}

TEST_F(WorkerGroupTest, FirstReportedFailureEndsWaitsOfAllWorkers) {
  std::vector<absl::Status> heard(kWorkers);
  for (int w = 0; w < kWorkers; ++w) {
    group(w).OnFailure([&heard, w](const absl::Status& why) { heard[w] = why; });
  }
  absl::Status waited;
  std::thread waiting([&] { waited = group(0).Get("never", Late()).status(); });
  const absl::Status first = absl::DataLossError("first");
  EXPECT_EQ(group(1).ReportFailure(first, Late()), first);
  EXPECT_EQ(group(2).ReportFailure(absl::DataLossError("second"), Late()), first);
  waiting.join();
  EXPECT_EQ(waited, first);
  EXPECT_EQ(heard[0], first);
  EXPECT_EQ(heard[1], absl::OkStatus());  // the reporter is not notified
  EXPECT_EQ(heard[2], first);
  EXPECT_EQ(group(0).Barrier("b", Late()), first);
  // A callback that is registered after the failure is called at once.
  absl::Status known;
  group(0).OnFailure([&](const absl::Status& why) { known = why; });
  EXPECT_EQ(known, first);
  // A new incarnation starts without the failure.
  OnEach([&](WorkerGroup& group) { EXPECT_TRUE(group.Join(Late()).ok()); });
  EXPECT_EQ(group(0).Put("key", "", Late()), absl::OkStatus());
  for (int w = 0; w < kWorkers; ++w) group(w).OnFailure(nullptr);
}

TEST_F(WorkerGroupTest, SilentWorkerIsUnreachableAndTimesOut) {
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
