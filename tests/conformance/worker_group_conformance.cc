// SPDX-License-Identifier: Apache-2.0
//
#include "tests/conformance/worker_group_conformance.h"

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/monotonic_time.h"
#include "framework/runtime/failure.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

MonotonicTime Soon() { return MonotonicTime::Now() + absl::Milliseconds(20); }
MonotonicTime Late() { return MonotonicTime::Now() + absl::Seconds(30); }

}  // namespace

WorkerGroupConformance::WorkerGroupConformance() : workers_(GetParam()(kWorkers)) {
  OnEach([](WorkerGroup& group) { EXPECT_GT(group.Join(Late()).value(), 0u); });
}

void WorkerGroupConformance::OnEach(const std::function<void(WorkerGroup&)>& work) {
  std::vector<std::thread> threads;
  for (const auto& group : workers_.groups) threads.emplace_back([&] { work(*group); });
  for (std::thread& thread : threads) thread.join();
}

TEST_P(WorkerGroupConformance, JoinStartsSameIncarnationWithEmptyStoreOnAllWorkers) {
  uint64_t before = 0;
  for (int round = 0; round < 3; ++round) {
    std::vector<uint64_t> incarnations(kWorkers);
    OnEach([&](WorkerGroup& group) { incarnations[group.worker()] = group.Join(Late()).value(); });
    EXPECT_THAT(incarnations, testing::Each(incarnations[0]));
    EXPECT_GT(incarnations[0], before);
    before = incarnations[0];
    EXPECT_EQ(group(0).Put("key", "value", Late()), absl::OkStatus());
  }
  // Workers that joined an incarnation do not count towards the next one.
  for (int w = 0; w < kWorkers; ++w) {
    EXPECT_THAT(group(w).Join(Soon()).status(),
                IsError(absl::StatusCode::kDeadlineExceeded, "missing worker"));
  }
}

TEST_P(WorkerGroupConformance, JoinNamesMissingWorker) {
  absl::Status status;
  std::thread second([&] { group(1).Join(Soon()).status().IgnoreError(); });
  status = group(0).Join(MonotonicTime::Now() + absl::Milliseconds(40)).status();
  second.join();
  EXPECT_THAT(status, IsError(absl::StatusCode::kDeadlineExceeded, "missing worker"));
  // Workers that gave up do not count towards the next join.
  EXPECT_THAT(group(2).Join(Soon()).status(),
              IsError(absl::StatusCode::kDeadlineExceeded, "missing worker"));
}

TEST_P(WorkerGroupConformance, GetBlocksUntilKeyIsPut) {
  std::thread late([&] {
    absl::SleepFor(absl::Milliseconds(5));
    EXPECT_EQ(group(2).Put("key", std::string("a\0b", 3), Late()), absl::OkStatus());
  });
  const auto value = group(0).Get("key", Late());
  late.join();
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(*value, std::string("a\0b", 3));
  EXPECT_EQ(group(0).Watch("key").value_or("none"), *value);
  EXPECT_THAT(group(1).Put("key", "again", Late()),
              IsError(absl::StatusCode::kAlreadyExists, "'key'"));
  EXPECT_THAT(group(1).Get("none", Soon()).status(),
              IsError(absl::StatusCode::kDeadlineExceeded, "'none'"));
}

TEST_P(WorkerGroupConformance, KeyForOthersIsRemovedOnceAllHaveReadIt) {
  const std::string values[] = {"short", std::string(200'000, 'x'), ""};
  for (const std::string& value : values) {
    std::thread early([&] {  // waits before the key exists
      EXPECT_EQ(group(1).Get("key", Late()).value_or("none"), value);
    });
    EXPECT_EQ(group(0).PutForOthers("key", value, Late()), absl::OkStatus());
    early.join();
    EXPECT_THAT(group(0).PutForOthers("key", "again", Late()),
                IsError(absl::StatusCode::kAlreadyExists, "'key'"));
    EXPECT_EQ(group(2).Get("key", Late()).value_or("none"), value);
  }
}

TEST_P(WorkerGroupConformance, KeyForOneReaderIsRemovedOnceItIsRead) {
  const std::string large(200'000, 'x');
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(group(1).PutForReaders("key", 1, large, Late()), absl::OkStatus());
    EXPECT_EQ(group(0).Get("key", Late()).value_or("none"), large);
  }
}

TEST_P(WorkerGroupConformance, BarrierBlocksUntilAllWorkersArrive) {
  std::atomic<int> arrived{0};
  OnEach([&](WorkerGroup& group) {
    ++arrived;
    EXPECT_EQ(group.Barrier("b", Late()), absl::OkStatus());
    EXPECT_EQ(arrived, kWorkers);
  });
  const absl::Status alone = group(1).Barrier("c", Soon());
  EXPECT_THAT(alone, IsError(absl::StatusCode::kDeadlineExceeded, "missing worker 0, 2"));
}

TEST_P(WorkerGroupConformance, AllGatherReturnsValuesByWorker) {
  // Names can be reused, and values can hold any bytes.
  for (int round = 0; round < 3; ++round) {
    const std::string values[kWorkers] = {absl::StrCat("5 a", round), "", std::string("\0 7 ", 4)};
    OnEach([&](WorkerGroup& group) {
      const auto got = group.AllGather("g", values[group.worker()], Late());
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_EQ(*got, std::vector<std::string>(values, values + kWorkers));
    });
  }
  const auto alone = group(2).AllGather("h", "value", Soon());
  EXPECT_THAT(alone.status(), IsError(absl::StatusCode::kDeadlineExceeded, "missing worker 0, 1"));
  EXPECT_EQ(FailureOf(alone.status()), (Failure{.worker = 0}));
}

TEST_P(WorkerGroupConformance, FirstReportedFailureEndsWaitsOfAllWorkers) {
  std::vector<absl::Status> heard(kWorkers);
  std::atomic<bool> has_heard[kWorkers] = {};
  for (int w = 0; w < kWorkers; ++w) {
    group(w).OnFailure([&, w](const absl::Status& why) {
      heard[w] = why;
      has_heard[w] = true;
    });
  }
  absl::Status waited;
  std::thread waiting([&] { waited = group(0).Get("never", Late()).status(); });
  const absl::Status first = absl::DataLossError("first");
  EXPECT_EQ(group(1).ReportFailure(first, Late()), first);
  EXPECT_EQ(group(2).ReportFailure(absl::DataLossError("second"), Late()), first);
  waiting.join();
  EXPECT_EQ(waited, first);
  const MonotonicTime deadline = Late();
  while ((!has_heard[0] || !has_heard[2]) && MonotonicTime::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(heard[0], first);
  EXPECT_EQ(heard[2], first);
  EXPECT_EQ(group(0).Barrier("b", Late()), first);
  // A callback that is registered after the failure is called immediately.
  absl::Status known;
  group(0).OnFailure([&](const absl::Status& why) { known = why; });
  EXPECT_EQ(known, first);
  // A new incarnation starts without the failure.
  OnEach([&](WorkerGroup& group) { EXPECT_TRUE(group.Join(Late()).ok()); });
  EXPECT_EQ(group(0).Put("key", "", Late()), absl::OkStatus());
  for (int w = 0; w < kWorkers; ++w) group(w).OnFailure(nullptr);
}

TEST_P(WorkerGroupConformance, LongValuesAndMessagesArriveComplete) {
  std::string value(1'000'000, 'x');
  for (size_t i = 0; i < value.size(); ++i) value[i] = static_cast<char>(i * 31 >> 3);
  EXPECT_EQ(group(2).Put("long", value, Late()), absl::OkStatus());
  EXPECT_EQ(group(0).Get("long", Late()).value(), value);
  EXPECT_EQ(group(2).Put("empty", "", Late()), absl::OkStatus());
  EXPECT_EQ(group(0).Get("empty", Late()).value(), "");
}

TEST_P(WorkerGroupConformance, FailureKeepsItsPayload) {
  const Failure where = {.rank = 3, .worker = 1, .step = 17, .sequence = 4, .name = "gradients"};
  const absl::Status cause = WithFailure(absl::DataLossError("bits\xff"), where);
  EXPECT_EQ(group(1).ReportFailure(cause, Late()), cause);
  const absl::Status heard = group(0).Watch("never").status();
  EXPECT_EQ(heard, cause);
  EXPECT_EQ(FailureOf(heard), where);
}

}  // namespace mirrorflow
