// SPDX-License-Identifier: Apache-2.0
//
// Tests what the coordination service concludes from workers' heartbeats.
#include "distribute/cluster/coordination/membership.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "framework/core/monotonic_time.h"
#include "framework/runtime/failure.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int kWorkers = 3;

class MembershipTest : public testing::Test {
 protected:
  MembershipTest() {
    for (int w = 0; w < kWorkers; ++w) {
      EXPECT_EQ(membership_.Admit({.worker = w, .number = 1}, Describe(w)), absl::OkStatus());
    }
    for (int w = 0; w < kWorkers; ++w) membership_.Begin(w);
  }

  static coordination::Member Describe(int worker) {
    coordination::Member member;
    member.set_worker(worker);
    member.set_num_workers(kWorkers);
    member.set_host("host");
    member.set_pid(100 + worker);
    member.set_heartbeat_timeout_ms(10'000);
    member.set_progress_timeout_ms(5'000);
    member.set_prepare_timeout_ms(600'000);
    return member;
  }

  void Beat(int worker, uint64_t runs, uint64_t collectives, bool running = true) {
    coordination::Heartbeat heartbeat;
    heartbeat.set_step(1000 + runs);
    heartbeat.set_runs(runs);
    heartbeat.set_collectives(collectives);
    heartbeat.set_running(running);
    heartbeat.set_collective("gradient");
    membership_.Beat(worker, heartbeat);
  }

  Membership membership_{kWorkers, {}};
  const MonotonicTime begin_ = MonotonicTime::Now();
};

// A process can register again if the answer to its first registration was lost.
TEST_F(MembershipTest, OnlyAnotherProcessIsRefused) {
  Membership incomplete(kWorkers, {});
  EXPECT_EQ(incomplete.Admit({.worker = 1, .number = 1}, Describe(1)), absl::OkStatus());
  EXPECT_EQ(incomplete.Admit({.worker = 1, .number = 1}, Describe(1)), absl::OkStatus());
  EXPECT_THAT(incomplete.Admit({.worker = 1, .number = 2}, Describe(1)),
              IsError(absl::StatusCode::kAborted, "process 101"));  // the caller can retry
  // A process can retry even after all workers have registered, because another worker can have
  // died unnoticed.
  EXPECT_THAT(membership_.Admit({.worker = 1, .number = 2}, Describe(1)),
              IsError(absl::StatusCode::kAborted, "process 101"));
}

TEST_F(MembershipTest, LostProcessReceivesReason) {
  EXPECT_EQ(membership_.CheckMember({.worker = 1, .number = 1}), absl::OkStatus());
  EXPECT_FALSE(membership_.Lose({.worker = 1, .number = 2}).has_value());  // another process
  ASSERT_TRUE(membership_.Lose({.worker = 1, .number = 1}).has_value());
  const absl::Status lost = membership_.CheckMember({.worker = 1, .number = 1});
  EXPECT_THAT(lost, IsError(absl::StatusCode::kUnavailable, "is lost"));
}

// Notifying thousands of workers that all have registered takes a while.
TEST_F(MembershipTest, WorkerThatHasNotBeenNotifiedIsNotSilent) {
  Membership membership(kWorkers, {});
  for (int w = 0; w < kWorkers; ++w) {
    EXPECT_THAT(membership.members().result().status(),
                IsError(absl::StatusCode::kUnavailable, "registered"));
    EXPECT_EQ(membership.Admit({.worker = w, .number = 1}, Describe(w)), absl::OkStatus());
  }
  EXPECT_TRUE(membership.members().result().ok());
  membership.Begin(1);
  EXPECT_THAT(membership.SilentWorkers(MonotonicTime::Now() + absl::Hours(1)), ElementsAre(1));
}

TEST_F(MembershipTest, WorkersThatShareGpuAreRefused) {
  for (const bool reverse : {false, true}) {
    Membership membership(kWorkers, {});
    absl::Status admitted;
    for (int i = 0; i < kWorkers; ++i) {
      const int w = reverse ? kWorkers - 1 - i : i;
      coordination::Member member = Describe(w);
      for (int device = 0; device < 2; ++device) member.add_devices(absl::StrCat("GPU:", device));
      member.add_gpu_uuids(absl::StrCat("GPU-", w));
      member.add_gpu_uuids(w == 2 ? "GPU-1" : absl::StrCat("GPU-1", w));
      admitted = membership.Admit({.worker = w, .number = 1}, member);
      if (!admitted.ok()) break;
    }
    // The error is the same whichever worker registers first.
    EXPECT_THAT(admitted, IsError(absl::StatusCode::kInvalidArgument, "devices", "worker 1 (GPU:0)",
                                  "worker 2 (GPU:1)"));
    EXPECT_EQ(FailureOf(admitted)->worker, reverse ? 1 : 2);
    EXPECT_EQ(membership.mismatch(), admitted);
  }
}

TEST_F(MembershipTest, WorkerThatUsesGpuTwiceIsRefused) {
  Membership membership(kWorkers, {});
  coordination::Member member = Describe(0);
  for (int i = 0; i < 2; ++i) {
    member.add_devices(absl::StrCat("GPU:", i));
    member.add_gpu_uuids("GPU-0");
  }
  EXPECT_THAT(membership.Admit({.worker = 0, .number = 1}, member),
              IsError(absl::StatusCode::kInvalidArgument, "devices", "worker 0 (GPU:0)",
                      "worker 0 (GPU:1)"));
}

TEST_F(MembershipTest, ProcessThatRegistersAgainFreesItsGpu) {
  Membership membership(kWorkers, {});
  coordination::Member first = Describe(1), other = Describe(2);
  for (coordination::Member* const member : {&first, &other}) {
    member->add_devices("GPU:0");
    member->add_gpu_uuids("GPU-0");
  }
  EXPECT_EQ(membership.Admit({.worker = 1, .number = 1}, first), absl::OkStatus());
  first.set_gpu_uuids(0, "GPU-1");
  EXPECT_EQ(membership.Admit({.worker = 1, .number = 1}, first), absl::OkStatus());
  EXPECT_TRUE(membership.Lose({.worker = 1, .number = 1}).has_value());
  EXPECT_EQ(membership.Admit({.worker = 2, .number = 1}, other), absl::OkStatus());
}

TEST_F(MembershipTest, WorkerLeavesOnce) {
  EXPECT_TRUE(membership_.Leave(1, absl::FailedPreconditionError("done")));
  EXPECT_FALSE(membership_.Leave(1, absl::FailedPreconditionError("done")));
  EXPECT_EQ(membership_.left().size(), 1u);
}

// The progress report grows with the number of workers, and thousands of workers can be lost at
// once.
TEST_F(MembershipTest, OnlyFirstLossReportsProgressOfAllWorkers) {
  EXPECT_EQ(CollectivesOf(membership_.Lose({.worker = 1, .number = 1})->why).size(), kWorkers);
  EXPECT_TRUE(CollectivesOf(membership_.Lose({.worker = 2, .number = 1})->why).empty());
}

TEST_F(MembershipTest, GpuOfLostWorkerIsFree) {
  Membership membership(kWorkers, {});
  coordination::Member member = Describe(0);
  member.add_devices("GPU:0");
  member.add_gpu_uuids("GPU-0");
  EXPECT_EQ(membership.Admit({.worker = 0, .number = 1}, member), absl::OkStatus());
  EXPECT_TRUE(membership.Lose({.worker = 0, .number = 1}).has_value());
  member.set_worker(1);
  EXPECT_EQ(membership.Admit({.worker = 1, .number = 1}, member), absl::OkStatus());
}

TEST_F(MembershipTest, FewMissingWorkersAreNamed) {
  EXPECT_EQ(membership_.WaitingText(begin_), "");
  Membership known(kWorkers, {"a:1", "b:2", "c:3"}), large(1000, {});
  EXPECT_EQ(known.Admit({.worker = 1, .number = 1}, Describe(1)), absl::OkStatus());
  EXPECT_THAT(known.WaitingText(begin_), HasSubstr("missing worker 0 (a:1), 2 (c:3);"));
  EXPECT_THAT(large.WaitingText(begin_),
              HasSubstr("missing worker 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 990 more"));
}

TEST_F(MembershipTest, SilentWorkerIsLost) {
  EXPECT_THAT(membership_.SilentWorkers(begin_ + absl::Seconds(9)), IsEmpty());
  const MonotonicTime late = begin_ + absl::Seconds(11);
  EXPECT_THAT(membership_.SilentWorkers(late), ElementsAre(0, 1, 2));
  Beat(1, 7, 20);
  const auto loss = membership_.LoseSilent(1, late);
  ASSERT_TRUE(loss.has_value());
  EXPECT_TRUE(loss->is_final);
  EXPECT_EQ(FailureOf(loss->why)->worker, 1);
  EXPECT_THAT(loss->why,
              IsError(absl::StatusCode::kUnavailable, "worker 1 (process 101", "since step 1007"));
  EXPECT_EQ(CollectivesOf(loss->why), (CollectivesByWorker{{0, 0}, {1, 20}, {2, 0}}));
  EXPECT_THAT(membership_.SilentWorkers(late), ElementsAre(0, 2));
  EXPECT_FALSE(membership_.LoseSilent(1, late).has_value());
}

TEST_F(MembershipTest, SilenceIsForgivenAfterServiceWasStopped) {
  membership_.ForgiveSilence(absl::Seconds(5));
  EXPECT_THAT(membership_.SilentWorkers(begin_ + absl::Seconds(11)), IsEmpty());
  EXPECT_THAT(membership_.SilentWorkers(begin_ + absl::Seconds(16)), ElementsAre(0, 1, 2));
}

TEST_F(MembershipTest, SlowWorkersAreReportedOncePerMinute) {
  EXPECT_EQ(membership_.SlowWorkersText(begin_ + absl::Seconds(3)), "");
  MonotonicTime::AdvanceForTest(absl::Seconds(1));
  Beat(0, 1, 1);
  Beat(2, 1, 1);
  const MonotonicTime late = MonotonicTime::Now() + absl::Seconds(5);
  EXPECT_THAT(membership_.SlowWorkersText(late),
              AllOf(HasSubstr("worker 1 (process 101"), HasSubstr("also worker 0, 2")));
  EXPECT_EQ(membership_.SlowWorkersText(late), "");
  EXPECT_NE(membership_.SlowWorkersText(late + absl::Minutes(1)), "");
}

TEST_F(MembershipTest, StallInsideStepIsReportedOnce) {
  for (int w = 0; w < kWorkers; ++w) Beat(w, 1, 3, /*running=*/w != 0);
  // Worker 0 waits for the others between two steps.
  membership_.SetWaiting(begin_, {true, false, false});
  EXPECT_TRUE(membership_.FindStall(begin_ + absl::Seconds(4)).ok());
  const MonotonicTime late = begin_ + absl::Seconds(6);
  const absl::Status stall = membership_.FindStall(late);
  EXPECT_THAT(stall,
              IsError(absl::StatusCode::kDeadlineExceeded, "worker 1", "in step 1001", "6.0 s"));
  EXPECT_THAT(membership_.FindStall(late),
              IsError(absl::StatusCode::kDeadlineExceeded, "worker 2"));
  EXPECT_TRUE(membership_.FindStall(late).ok());
  Beat(1, 1, 4);  // worker 1 continues, and stops again
  EXPECT_TRUE(membership_.FindStall(MonotonicTime::Now() + absl::Seconds(4)).ok());
  EXPECT_THAT(membership_.FindStall(MonotonicTime::Now() + absl::Seconds(6)),
              IsError(absl::StatusCode::kDeadlineExceeded, "worker 1"));
}

// A late worker loads data, compiles or runs a callback.
TEST_F(MembershipTest, WaitingForLateWorkerIsNotStall) {
  for (int w = 0; w < kWorkers; ++w) Beat(w, 1, 3, /*running=*/w != 0);
  EXPECT_TRUE(membership_.FindStall(begin_ + absl::Minutes(9)).ok());
  const MonotonicTime too_late = begin_ + absl::Minutes(11);
  EXPECT_THAT(membership_.FindStall(too_late),
              IsError(absl::StatusCode::kDeadlineExceeded, "worker 1"));
}

TEST_F(MembershipTest, WorkersHaveTimeToContinueAfterLateWorkerArrives) {
  for (int w = 0; w < kWorkers; ++w) Beat(w, 1, 3, /*running=*/w != 0);
  const MonotonicTime arrival = begin_ + absl::Minutes(9);
  EXPECT_TRUE(membership_.FindStall(arrival).ok());
  Beat(0, 1, 3);
  // The others' heartbeats do not yet report that they also continue.
  EXPECT_TRUE(membership_.FindStall(arrival + absl::Seconds(4)).ok());
  EXPECT_THAT(membership_.FindStall(arrival + absl::Seconds(6)),
              IsError(absl::StatusCode::kDeadlineExceeded, "worker 0"));
}

TEST_F(MembershipTest, WaitingForDepartedWorkerIsStall) {
  for (int w = 0; w < kWorkers; ++w) Beat(w, 1, 3, /*running=*/w != 0);
  membership_.Leave(0, absl::UnavailableError("done"));
  EXPECT_THAT(membership_.FindStall(begin_ + absl::Seconds(6)),
              IsError(absl::StatusCode::kDeadlineExceeded, "worker 1"));
}

TEST_F(MembershipTest, LateWorkerIsReportedOncePerMinute) {
  for (int w = 0; w < kWorkers; ++w) Beat(w, 1, 3, /*running=*/w == 1);
  membership_.SetWaiting(begin_, {false, false, true});
  EXPECT_EQ(membership_.LateWorkerText(begin_ + absl::Seconds(59)), "");
  const MonotonicTime late = begin_ + absl::Seconds(90);
  EXPECT_THAT(membership_.LateWorkerText(late),
              AllOf(HasSubstr("worker 0"), HasSubstr("is late"), HasSubstr("since step 1001")));
  EXPECT_EQ(membership_.LateWorkerText(late), "");
  EXPECT_NE(membership_.LateWorkerText(late + absl::Minutes(1)), "");
  // No worker waits for the late worker.
  Beat(1, 1, 3, /*running=*/false);
  membership_.SetWaiting(late, {false, false, false});
  EXPECT_EQ(membership_.LateWorkerText(late + absl::Minutes(3)), "");
}

TEST_F(MembershipTest, WorkerThatHasWaitedForLateWorkerCanBeLateItself) {
  for (int w = 0; w < kWorkers; ++w) Beat(w, 1, 3, /*running=*/false);
  const MonotonicTime arrival = begin_ + absl::Minutes(9);
  membership_.SetWaiting(arrival, {true, false, true});
  EXPECT_THAT(membership_.LateWorkerText(arrival), HasSubstr("worker 1"));
  membership_.SetWaiting(arrival + absl::Seconds(1), {false, true, false});
  EXPECT_EQ(membership_.LateWorkerText(arrival + absl::Seconds(1)), "");
  // Worker 0 compiles while the others are inside a step.
  for (int w = 1; w < kWorkers; ++w) Beat(w, 1, 4);
  membership_.SetWaiting(arrival + absl::Seconds(2), {false, false, false});
  EXPECT_TRUE(membership_.FindStall(arrival + absl::Minutes(9)).ok());
  EXPECT_THAT(membership_.LateWorkerText(arrival + absl::Minutes(9)), HasSubstr("worker 0"));
  EXPECT_THAT(membership_.FindStall(arrival + absl::Minutes(11)),
              IsError(absl::StatusCode::kDeadlineExceeded, "worker 1"));
}

TEST_F(MembershipTest, SlowestWorkerIsBlamedForTimeout) {
  const absl::Status timeout =
      WithFailure(absl::DeadlineExceededError("the wait has timed out"), {.rank = 0, .worker = 0});
  Beat(0, 5, 12);
  Beat(1, 5, 11);
  Beat(2, 5, 12);
  const absl::Status blame = membership_.BlameSlowest(timeout);
  EXPECT_EQ(FailureOf(blame)->worker, 1);
  EXPECT_THAT(blame, IsError(absl::StatusCode::kDeadlineExceeded, "worker 1 (process 101",
                             "collective 11 'gradient'", "worker 0", "step 1005", "collective 12",
                             std::string(timeout.message())));
  EXPECT_THAT(std::string(blame.message()), Not(HasSubstr("worker 2")));
  EXPECT_EQ(CollectivesOf(blame), (CollectivesByWorker{{0, 12}, {1, 11}, {2, 12}}));
  Beat(2, 4, 11);  // a step behind
  Beat(1, 4, 11);
  EXPECT_THAT(membership_.BlameSlowest(timeout),
              IsError(absl::StatusCode::kDeadlineExceeded, "worker 1 (process 101", "step 1004",
                      "worker 2"));
}

TEST_F(MembershipTest, TimeoutIsUnchangedIfAllWorkersHaveEqualProgress) {
  const absl::Status timeout =
      WithFailure(absl::DeadlineExceededError("the wait has timed out"), {.rank = 0, .worker = 0});
  for (int w = 0; w < kWorkers; ++w) Beat(w, 5, 12);
  const absl::Status blame = membership_.BlameSlowest(timeout);
  EXPECT_EQ(blame.code(), timeout.code());
  EXPECT_EQ(blame.message(), timeout.message());
  EXPECT_EQ(FailureOf(blame), FailureOf(timeout));
}

TEST_F(MembershipTest, WorkersThatHaveLeftAreNotAwaited) {
  const MonotonicTime before = MonotonicTime::Now();
  Beat(0, 1, 1);
  Beat(1, 1, 1);
  EXPECT_LE(membership_.HeardFromAllSince(), before);
  membership_.Leave(2, absl::CancelledError("it has left"));
  EXPECT_GT(membership_.HeardFromAllSince(), before);
  EXPECT_THAT(membership_.SilentWorkers(begin_ + absl::Seconds(11)), Not(IsEmpty()));
}

}  // namespace
}  // namespace mirrorflow
