// SPDX-License-Identifier: Apache-2.0
//
// Tests the stop requests of PreemptionHandler within one process. //tests/tools:restarts_test
// sends signals to worker processes.
#include "train/trainer/preemption.h"

#include <csignal>
#include <future>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/core/monotonic_time.h"
#include "framework/runtime/failure.h"
#include "framework/workers/connection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/forwarding_worker_group.h"
#include "tests/support/is_error.h"
#include "tests/support/test_workers.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// If the coordination service has no room for the announcement that training has ended, workers
// must not wait for the announcement.
TEST(PreemptionHandlerTest, EndsIfTheServiceHasNoRoomForTheAnnouncement) {
  const Graph graph;
  const auto workers = TestWorkers::Create([&](int) -> const Graph& { return graph; },
                                           {.workers = 2, .replicas = 1});
  ASSERT_TRUE(workers.ok()) << workers.status();
  WorkerGroup& group = *(*workers)->session(0).connection().workers();
  const MonotonicTime deadline = MonotonicTime::Now() + absl::Seconds(30);
  absl::Status full;
  for (int i = 0; full.ok(); ++i) full = group.Put(absl::StrCat("key ", i), "", deadline);
  ASSERT_TRUE(absl::IsResourceExhausted(full)) << full;
  {
    const auto handler = PreemptionHandler::Create((*workers)->session(0));
    ASSERT_TRUE(handler.ok()) << handler.status();
    EXPECT_TRUE((*handler)->MayBegin());
  }
  // The other worker receives the reason.
  WorkerGroup& other = *(*workers)->session(1).connection().workers();
  EXPECT_TRUE(absl::IsResourceExhausted(other.Get("never put", deadline).status()));
}

// Delivers a stop request to this worker's handler once the test allows it, and reports when the
// handler waits for the other workers' counts.
class WatchedGroup final : public ForwardingWorkerGroup {
 public:
  using ForwardingWorkerGroup::ForwardingWorkerGroup;

  absl::StatusOr<std::string> Watch(absl::string_view key) override {
    if (absl::StartsWith(key, "stop ")) allowed_.wait();
    return ForwardingWorkerGroup::Watch(key);
  }
  absl::StatusOr<std::vector<std::string>> AllGather(absl::string_view name, std::string value,
                                                     MonotonicTime deadline) override {
    if (absl::StartsWith(name, "stop ")) gather_.set_value(std::string(name));
    return ForwardingWorkerGroup::AllGather(name, std::move(value), deadline);
  }
  void AllowStop() { allowed_.count_down(); }
  // Blocks until the handler joins the exchange of run counts, and returns that exchange's name.
  std::string AwaitGather() { return gather_.get_future().get(); }

 private:
  std::latch allowed_{1};
  std::promise<std::string> gather_;
};

// The last worker has a handler, is in its first step, and receives SIGTERM. A process can have
// only one handler, so the test itself makes the other workers' calls.
class StopRequestTest : public testing::Test {
 protected:
  void Start(int num_workers) {
    auto workers =
        TestWorkers::Create([&](int) -> const Graph& { return graph_; },
                            {.workers = num_workers,
                             .replicas = 1,
                             .change = [&](int w, SessionOptions*, SessionBackend* backend) {
                               if (w != num_workers - 1) return;
                               watched_ = std::make_shared<WatchedGroup>(*backend->workers);
                               backend->workers = watched_;
                             }});
    ASSERT_TRUE(workers.ok()) << workers.status();
    workers_ = *std::move(workers);
    ASSERT_EQ(PreemptionHandler::TakeSignals(), absl::OkStatus());
    auto handler = PreemptionHandler::Create(workers_->session(num_workers - 1));
    ASSERT_TRUE(handler.ok()) << handler.status();
    handler_ = *std::move(handler);
    EXPECT_TRUE(handler_->MayBegin());
    // The process remembers the signal for all later handlers, and a second signal would end it.
    // Therefore the signal is raised only once.
    static const int raised = raise(SIGTERM);
    ASSERT_EQ(raised, 0);
    watched_->AllowStop();
    gather_ = watched_->AwaitGather();
    // The key must not contain the number of handlers that this process has created, because
    // another worker may have been restarted.
    EXPECT_EQ(gather_, "stop 0: runs");
  }
  WorkerGroup& Group(int worker) { return *workers_->session(worker).connection().workers(); }

  const Graph graph_;
  std::shared_ptr<WatchedGroup> watched_;
  std::unique_ptr<TestWorkers> workers_;
  std::unique_ptr<PreemptionHandler> handler_;
  std::string gather_;
};

// A worker can spend minutes loading data before it creates its handler.
TEST_F(StopRequestTest, HandlerWaitsForSlowWorker) {
  Start(2);
  MonotonicTime::AdvanceForTest(absl::Minutes(5));
  // When the service times out this call, it also fails every other call whose deadline has passed.
  const absl::Status never = Group(0).Get("never put", MonotonicTime::Now()).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(never)) << never;
  const auto runs = Group(0).AllGather(gather_, "0", MonotonicTime::Now() + absl::Seconds(30));
  ASSERT_TRUE(runs.ok()) << runs.status();
  EXPECT_THAT(*runs, ElementsAre("0", "1"));  // so both stop after the first run
  EXPECT_FALSE(handler_->MayBegin());
  const auto stopped = handler_->Finish();
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  EXPECT_EQ(*stopped, SIGTERM);
}

// A worker that hangs must not prevent the job from ending.
TEST_F(StopRequestTest, HandlerGivesUpOnSlowWorkerAfterPrepareTimeout) {
  Start(2);
  MonotonicTime::AdvanceForTest(absl::Minutes(31));
  const absl::Status never = Group(0).Get("never put", MonotonicTime::Now()).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(never)) << never;
  EXPECT_FALSE(handler_->MayBegin());
  const absl::Status stopped = handler_->Finish().status();
  EXPECT_THAT(stopped, IsError(absl::StatusCode::kDeadlineExceeded, "missing worker 0"));
  ASSERT_TRUE(FailureOf(stopped).has_value()) << stopped;
  EXPECT_EQ(FailureOf(stopped)->worker, 0);
  // If worker 0 arrives after all, it receives the same error.
  const MonotonicTime deadline = MonotonicTime::Now() + absl::Seconds(30);
  EXPECT_EQ(Group(0).AllGather(gather_, "0", deadline).status(), stopped);
}

TEST_F(StopRequestTest, MalformedRunCountIsRejected) {
  Start(2);
  const auto runs = Group(0).AllGather(gather_, "many", MonotonicTime::Now() + absl::Seconds(30));
  EXPECT_TRUE(runs.ok()) << runs.status();
  EXPECT_FALSE(handler_->MayBegin());
  const absl::Status stopped = handler_->Finish().status();
  EXPECT_THAT(stopped, IsError(absl::StatusCode::kInternal, "'many'"));
}

// Worker 1 gives up before worker 0 arrives.
TEST_F(StopRequestTest, HandlerReturnsTheFailureOfTheWorkerThatGaveUp) {
  Start(3);
  // Leaves the call time to reach the service, even on a busy machine.
  constexpr absl::Duration kGivesUpAfter = absl::Seconds(1);
  const MonotonicTime early = MonotonicTime::Now() + kGivesUpAfter;
  const absl::Status gave_up = Group(1).AllGather(gather_, "9", early).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(gave_up)) << gave_up;
  ASSERT_TRUE(FailureOf(gave_up).has_value()) << gave_up;
  EXPECT_EQ(FailureOf(gave_up)->worker, 0);
  // By now, every worker has called AllGather, but never all at the same time.
  const MonotonicTime moment = MonotonicTime::Now() + kGivesUpAfter;
  const absl::Status late = Group(0).AllGather(gather_, "0", moment).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  EXPECT_THAT(std::string(late.message()), Not(HasSubstr("missing worker 1")));
  EXPECT_EQ(Group(1).ReportFailure(gave_up, MonotonicTime::Now() + absl::Seconds(30)), gave_up);
  EXPECT_FALSE(handler_->MayBegin());
  EXPECT_EQ(handler_->Finish().status(), gave_up);
}

}  // namespace
}  // namespace mirrorflow
