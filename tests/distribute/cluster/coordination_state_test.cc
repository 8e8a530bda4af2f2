// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/coordination_state.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "framework/core/monotonic_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/cluster/memory_worker_group.h"

namespace mirrorflow {
namespace {

// A worker that has given up does not complete an all-gather with a worker that arrives later.
TEST(CoordinationStateTest, ValueOfWorkerThatGaveUpDoesNotCount) {
  const std::vector<std::unique_ptr<MemoryWorkerGroup>> groups = CreateMemoryWorkerGroups(2);
  const auto in = [](absl::Duration wait) { return MonotonicTime::Now() + wait; };
  std::thread joins([&] { EXPECT_TRUE(groups[1]->Join(in(absl::Seconds(30))).ok()); });
  EXPECT_TRUE(groups[0]->Join(in(absl::Seconds(30))).ok());
  joins.join();
  const absl::Duration moment = absl::Milliseconds(50);
  EXPECT_TRUE(absl::IsDeadlineExceeded(groups[0]->AllGather("x", "early", in(moment)).status()));
  EXPECT_TRUE(absl::IsDeadlineExceeded(groups[1]->AllGather("x", "late", in(moment)).status()));
  // The all-gather completes once both workers are waiting in it at the same time.
  std::thread second(
      [&] { EXPECT_TRUE(groups[1]->AllGather("x", "b", in(absl::Seconds(30))).ok()); });
  const auto values = groups[0]->AllGather("x", "a", in(absl::Seconds(30)));
  second.join();
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT(*values, testing::ElementsAre("a", "b"));
}

// A worker whose calls were cancelled does not complete an all-gather with a later worker.
TEST(CoordinationStateTest, ValueOfCancelledWorkerDoesNotCount) {
  CoordinationState state(2);
  const MonotonicTime never = MonotonicTime::InfiniteFuture();
  for (int worker = 0; worker < 2; ++worker) state.Join(worker, never, [](const auto&) {});
  const uint64_t incarnation = state.incarnation();
  absl::Status cancelled;
  state.AllGather(1, incarnation, "x", "early", never,
                  [&](const auto& values) { cancelled = values.status(); });
  state.Cancel(1);
  EXPECT_TRUE(absl::IsCancelled(cancelled)) << cancelled;
  bool has_answer = false;
  state.AllGather(0, incarnation, "x", "a", never, [&](const auto&) { has_answer = true; });
  EXPECT_FALSE(has_answer);
  state.Cancel(0);
  EXPECT_TRUE(has_answer);
}

// The service considers a worker late if all other workers are waiting.
TEST(CoordinationStateTest, WorkerIsWaitingInAnyCallExceptBackgroundCalls) {
  CoordinationState state(5);
  const MonotonicTime never = MonotonicTime::InfiniteFuture();
  const auto ignore = [](const auto&) {};
  for (int worker = 0; worker < 5; ++worker) state.Join(worker, never, ignore);
  const uint64_t incarnation = state.incarnation();
  state.WaitForFailure(0, incarnation, ignore);
  state.Get(0, incarnation, "x", never, ignore, /*in_background=*/true);
  state.Get(1, incarnation, "x", never, ignore);
  state.AllGather(2, incarnation, "x", "", never, ignore);
  state.AllGather(3, incarnation, "x", "", MonotonicTime::Now() + absl::Hours(1), ignore);
  state.Join(4, never, ignore);
  std::vector<bool> waiting(5);
  state.AddWaiting(&waiting);
  EXPECT_THAT(waiting, testing::ElementsAre(false, true, true, true, true));
}

TEST(CoordinationStateTest, WorkersShareOneReply) {
  constexpr int kWorkers = 3;
  CoordinationState state(kWorkers);
  const MonotonicTime never = MonotonicTime::InfiniteFuture();
  for (int worker = 0; worker < kWorkers; ++worker) state.Join(worker, never, [](const auto&) {});
  std::vector<Answer> answers;
  for (int worker = 0; worker < kWorkers; ++worker) {
    state.AllGather(worker, state.incarnation(), "x", "value", never,
                    [&](const Answer& answer) { answers.push_back(answer); });
  }
  ASSERT_EQ(answers.size(), kWorkers);
  for (const Answer& answer : answers) EXPECT_EQ(answer.reply(), answers[0].reply());
}

// If more workers wait for a key than it has readers, all receive it, because they called before
// the Put.
TEST(CoordinationStateTest, KeyForOneReaderIsReceivedByAllWaitingWorkers) {
  constexpr int kWorkers = 4;
  CoordinationState state(kWorkers);
  const MonotonicTime never = MonotonicTime::InfiniteFuture();
  for (int worker = 0; worker < kWorkers; ++worker) state.Join(worker, never, [](const auto&) {});
  std::vector<std::string> values;
  const auto add = [&](const Answer& answer) { values.push_back(*answer.result()); };
  for (const int worker : {1, 2, 2}) state.Get(worker, state.incarnation(), "x", never, add);
  EXPECT_EQ(state.Put(0, state.incarnation(), "x", "value", /*gets=*/1), absl::OkStatus());
  EXPECT_THAT(values, testing::ElementsAre("value", "value", "value"));
  EXPECT_EQ(state.Put(0, state.incarnation(), "x", "next", /*gets=*/1), absl::OkStatus());
  state.Get(3, state.incarnation(), "x", never, add);
  EXPECT_EQ(values.back(), "next");
}

TEST(CoordinationStateTest, EachOfTwoEqualCallsTimesOut) {
  CoordinationState state(2);
  const MonotonicTime never = MonotonicTime::InfiniteFuture(), now = MonotonicTime::Now();
  for (int worker = 0; worker < 2; ++worker) state.Join(worker, never, [](const auto&) {});
  int timed_out = 0;
  for (int call = 0; call < 2; ++call) {
    state.AllGather(0, state.incarnation(), "x", "value", now, [&](const Answer& answer) {
      timed_out += absl::IsDeadlineExceeded(answer.status());
    });
  }
  state.Expire(now);
  EXPECT_EQ(timed_out, 2);
}

TEST(CoordinationStateTest, StoreHasRoomForKeyOfEachWorker) {
  constexpr int kWorkers = 20'000;
  CoordinationState state(kWorkers);
  const MonotonicTime never = MonotonicTime::InfiniteFuture();
  for (int worker = 0; worker < kWorkers; ++worker) state.Join(worker, never, [](const auto&) {});
  for (int worker = 0; worker < kWorkers; ++worker) {
    ASSERT_EQ(state.Put(worker, state.incarnation(), absl::StrCat(worker), ""), absl::OkStatus());
  }
}

}  // namespace
}  // namespace mirrorflow
