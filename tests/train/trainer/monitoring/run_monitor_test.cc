// SPDX-License-Identifier: Apache-2.0
#include "train/trainer/monitoring/run_monitor.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/state_report.h"
#include "framework/runtime/run_progress.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Duration kLimit = absl::Minutes(5);
constexpr RunMonitor::StepReport kFirstStep = {.step = 1, .examples = 32, .loss = 0.5f};

auto Says(int code, const std::string& part) {
  return AllOf(Field("code", &HttpReply::code, code),
               Field("body", &HttpReply::body, AllOf(HasSubstr(part), EndsWith("\n"))));
}
const auto kYes = Says(200, "ok");

TEST(RunMonitorTest, ReadyAfterTheFirstStep) {
  RunMonitor monitor({.num_workers = 2});
  monitor.SetWaiting("both workers");
  EXPECT_THAT(monitor.Answer("/readyz"), Says(503, "both workers"));
  EXPECT_THAT(monitor.Answer("/healthz"), kYes);
  EXPECT_THAT(monitor.Answer("/metrics").body, HasSubstr("mirrorflow_ready{worker=\"0\"} 0\n"));
  monitor.BeginStep();
  EXPECT_THAT(monitor.Answer("/readyz"), Says(503, "both workers"));
  monitor.EndStep(kFirstStep);
  EXPECT_THAT(monitor.Answer("/readyz"), kYes);
  EXPECT_THAT(monitor.Answer("/metrics").body, HasSubstr("mirrorflow_ready{worker=\"0\"} 1\n"));
}

TEST(RunMonitorTest, UnreadyReplyDescribesTheProcessState) {
  int asked = 0;
  const StateReport report([&] {
    return std::vector<std::string>{absl::StrCat("2 workers: ", ++asked, " missing\033[2J"),
                                    "more"};
  });
  RunMonitor monitor({.num_workers = 2});
  monitor.SetWaiting("both workers");
  const HttpReply unready = monitor.Answer("/readyz");
  EXPECT_EQ(unready.code, 503);
  EXPECT_EQ(unready.body, "waiting: both workers\n2 workers: 1 missing\\033[2J\n");
  // Frequent requests do not sample the state more often.
  for (int i = 0; i < 1000; ++i) monitor.Answer("/readyz");
  EXPECT_LT(asked, 1000);
  monitor.EndStep(kFirstStep);
  EXPECT_THAT(monitor.Answer("/readyz"), kYes);
}

TEST(RunMonitorTest, LostWorkerMakesProcessUnready) {
  RunMonitor monitor({.num_workers = 2});
  const auto before = std::make_shared<RunProgress>(1), after = std::make_shared<RunProgress>(1);
  monitor.Watch(before);
  monitor.EndStep(kFirstStep);
  before->SetBroken();
  EXPECT_THAT(monitor.Answer("/readyz"), Says(503, "lost"));
  EXPECT_THAT(monitor.Answer("/healthz"), kYes);
  monitor.Watch(after);
  EXPECT_THAT(monitor.Answer("/readyz"), kYes);
  // The code that handles a lost worker also sets what this worker waits for.
  after->SetBroken();
  monitor.SetWaiting("all workers to return");
  EXPECT_THAT(monitor.Answer("/readyz"), Says(503, "waiting: all workers to return"));
}

TEST(RunMonitorTest, FailureIsReportedOnOneLine) {
  RunMonitor monitor({});
  monitor.EndStep(kFirstStep);
  monitor.Fail(absl::InternalError(std::string("first\nsecond \033[2J") + std::string(5000, 'x')));
  for (const char* const path : {"/healthz", "/readyz"}) {
    const HttpReply reply = monitor.Answer(path);
    EXPECT_THAT(reply, Says(503, "INTERNAL"));
    EXPECT_EQ(reply.body.find('\n'), reply.body.size() - 1);
    EXPECT_THAT(reply.body, Not(HasSubstr("\033")));
    EXPECT_LT(reply.body.size(), 600u);
  }
}

TEST(RunMonitorTest, StepWithoutProgressIsReportedAsHanging) {
  RunMonitor monitor({.progress_timeout = kLimit});
  const auto progress = std::make_shared<RunProgress>(2);
  monitor.Watch(progress);
  const RunProgress::Run run(*progress, 17);
  progress->log(0)->Start(0, "gradients");
  EXPECT_THAT(monitor.Answer("/healthz"), kYes);
  MonotonicTime::AdvanceForTest(kLimit - absl::Minutes(1));
  EXPECT_THAT(monitor.Answer("/healthz"), kYes);
  progress->log(1)->Start(0, "gradients");
  EXPECT_THAT(monitor.Answer("/healthz"), kYes);
  MonotonicTime::AdvanceForTest(kLimit - absl::Minutes(1));
  EXPECT_THAT(monitor.Answer("/healthz"), kYes);
  MonotonicTime::AdvanceForTest(absl::Minutes(1));
  EXPECT_THAT(monitor.Answer("/healthz"), Says(503, "step 17"));
  progress->log(0)->Finish();
  progress->log(1)->Finish();
  progress->log(0)->Start(1, "more");
  progress->log(1)->Start(1, "more");
  EXPECT_THAT(monitor.Answer("/healthz"), kYes);
}

TEST(RunMonitorTest, TimeBetweenStepsDoesNotCountAsHanging) {
  RunMonitor monitor({.progress_timeout = kLimit});
  const auto progress = std::make_shared<RunProgress>(1);
  monitor.Watch(progress);
  { const RunProgress::Run run(*progress, 1); }
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(monitor.Answer("/healthz"), kYes);
    MonotonicTime::AdvanceForTest(2 * kLimit);
  }
  const RunProgress::Run run(*progress, 2);
  EXPECT_THAT(monitor.Answer("/healthz"), kYes);  // the step has just begun
}

TEST(RunMonitorTest, WaitingForOtherRanksDoesNotCountAsHanging) {
  RunMonitor monitor({.progress_timeout = kLimit});
  const auto progress = std::make_shared<RunProgress>(1);
  monitor.Watch(progress);
  const RunProgress::Run run(*progress, 1);
  progress->log(0)->Start(0, "gradients");
  {
    const CollectiveLog::Wait wait(*progress->log(0));
    for (int i = 0; i < 3; ++i) {
      EXPECT_THAT(monitor.Answer("/healthz"), kYes);
      MonotonicTime::AdvanceForTest(2 * kLimit);
    }
  }
  progress->log(0)->Finish();
  EXPECT_THAT(monitor.Answer("/healthz"), kYes);
  MonotonicTime::AdvanceForTest(kLimit);
  EXPECT_THAT(monitor.Answer("/healthz"), Says(503, "gradients"));
}

TEST(RunMonitorTest, MetricsShowTheSteps) {
  RunMonitor monitor({.job = "a \"job\"", .worker = 1, .num_workers = 2, .restarts = 3});
  EXPECT_THAT(monitor.Answer("/metrics").body, Not(HasSubstr("mirrorflow_loss")));
  monitor.SetReplicas(2, 4);
  monitor.SetVariableBytes(1024);
  monitor.BeginStep();
  MonotonicTime::AdvanceForTest(absl::Seconds(2));
  monitor.EndStep(
      {.step = 101, .examples = 32, .loss = 0.5f, .checkpoint_time = MonotonicTime::Now()});
  MonotonicTime::AdvanceForTest(absl::Seconds(70));
  monitor.BeginStep();
  MonotonicTime::AdvanceForTest(absl::Minutes(2));
  monitor.EndStep({.step = 102,
                   .examples = 30,
                   .loss = 0.25f,
                   .reserved_bytes = 4096,
                   .checkpoint_time = MonotonicTime::Now() - absl::Seconds(190)});
  const HttpReply reply = monitor.Answer("/metrics");
  EXPECT_EQ(reply.content_type, "text/plain; version=0.0.4; charset=utf-8");
  const std::string labels = "{job=\"a \\\"job\\\"\",worker=\"1\"}";
  for (const auto& [name, value] :
       {std::pair("mirrorflow_workers", "2"), std::pair("mirrorflow_restarts_total", "3"),
        std::pair("mirrorflow_replicas", "4"), std::pair("mirrorflow_local_replicas", "2"),
        std::pair("mirrorflow_variable_bytes", "1024"), std::pair("mirrorflow_value_bytes", "4096"),
        std::pair("mirrorflow_step", "102"), std::pair("mirrorflow_loss", "0.25"),
        std::pair("mirrorflow_examples_total", "62"),
        std::pair("mirrorflow_step_duration_seconds_count", "2")}) {
    EXPECT_THAT(reply.body, HasSubstr("\n" + std::string(name) + labels + " " + value + "\n"));
  }
  const auto bucket = [](const std::string& le, const std::string& count) {
    return HasSubstr("worker=\"1\",le=\"" + le + "\"} " + count + "\n");
  };
  EXPECT_THAT(reply.body,
              AllOf(bucket("1", "0"), bucket("2.5", "1"), bucket("60", "1"), bucket("+Inf", "2")));
  EXPECT_THAT(reply.body, HasSubstr("mirrorflow_checkpoint_age_seconds" + labels + " 190."));
}

TEST(RunMonitorTest, ExposedCommunicationIsSummedOverConnections) {
  RunMonitor monitor({});
  const auto seconds = [&] {
    const std::string body = monitor.Answer("/metrics").body;
    const std::string name = "mirrorflow_exposed_communication_seconds_total{worker=\"0\"} ";
    return std::stod(body.substr(body.find("\n" + name) + 1 + name.size()));
  };
  const auto wait = [](RunProgress& progress, int replica, absl::Duration duration) {
    const CollectiveLog::Wait wait(*progress.log(replica));
    MonotonicTime::AdvanceForTest(duration);
  };
  const auto first = std::make_shared<RunProgress>(2), second = std::make_shared<RunProgress>(2);
  wait(*first, 0, absl::Hours(1));  // before Watch, so not counted
  monitor.Watch(first);
  wait(*first, 0, absl::Seconds(2));
  wait(*first, 1, absl::Seconds(4));
  EXPECT_NEAR(seconds(), 3, 0.1);
  monitor.Watch(second);
  EXPECT_NEAR(seconds(), 3, 0.1);
  wait(*second, 1, absl::Seconds(10));
  EXPECT_NEAR(seconds(), 8, 0.1);
}

TEST(RunMonitorTest, MayBeQueriedDuringUpdates) {
  RunMonitor monitor({});
  std::atomic<bool> ended{false};
  std::thread trains([&] {
    for (int i = 1; i <= 2000; ++i) {
      if (i % 500 == 1) monitor.Watch(std::make_shared<RunProgress>(2));
      monitor.BeginStep();
      monitor.EndStep({.step = i, .examples = 1});
    }
    ended = true;
  });
  do {
    for (const char* const path : {"/metrics", "/healthz", "/readyz", "/"}) {
      EXPECT_FALSE(monitor.Answer(path).body.empty());
    }
  } while (!ended);
  trains.join();
  EXPECT_THAT(monitor.Answer("/metrics").body,
              HasSubstr("mirrorflow_examples_total{worker=\"0\"} 2000\n"));
}

}  // namespace
}  // namespace mirrorflow
