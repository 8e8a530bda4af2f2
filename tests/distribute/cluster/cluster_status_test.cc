// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/cluster_status.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

using coordination::ClusterStatus;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

ClusterStatus::Worker* Add(ClusterStatus* status, ClusterStatus::State state,
                           const std::string& detail = "") {
  ClusterStatus::Worker* const worker = status->add_workers();
  worker->set_state(state);
  worker->set_detail(detail);
  worker->set_host("a");
  worker->set_pid(100 + status->workers_size());
  return worker;
}

TEST(ClusterStatusTest, EachWorkerHasOneLine) {
  ClusterStatus status;
  ClusterStatus::Worker* const hangs = Add(&status, ClusterStatus::IN_STEP);
  hangs->mutable_heartbeat()->set_running(true);
  hangs->mutable_heartbeat()->set_step(12);
  hangs->mutable_heartbeat()->set_collective("gradient");
  hangs->set_since_progress_ms(61'000);
  hangs->set_heartbeat_age_ms(1'000);
  Add(&status, ClusterStatus::WAITING, "get 'x'");
  Add(&status, ClusterStatus::BETWEEN_STEPS)->mutable_heartbeat()->set_step(12);
  Add(&status, ClusterStatus::MISSING, "b:2222");
  Add(&status, ClusterStatus::LEFT, "worker 4 is lost");
  EXPECT_THAT(
      LinesOf(status),
      ElementsAre(
          AllOf(HasSubstr("worker 0 (process 101"), HasSubstr("in step 12"), HasSubstr("gradient"),
                HasSubstr("no progress for 61.0 s"), Not(HasSubstr("heartbeat"))),
          AllOf(HasSubstr("worker 1 (process 102 on a)"), HasSubstr("waits"), HasSubstr("get 'x'")),
          AllOf(HasSubstr("worker 2"), HasSubstr("after step 12")),
          AllOf(HasSubstr("worker 3: missing"), HasSubstr("b:2222")),
          testing::StrEq("worker 4 is lost")));
  EXPECT_EQ(SummaryOf(status),
            "5 workers: 1 in a step (0), 1 waiting for others (1), 1 between steps (2), "
            "1 missing (3), 1 left or lost (4)");
}

TEST(ClusterStatusTest, SummaryOfThousandsOfWorkersIsShort) {
  ClusterStatus status;
  for (int w = 0; w < 5000; ++w) Add(&status, ClusterStatus::IN_STEP);
  EXPECT_LT(SummaryOf(status).size(), 100u);
  EXPECT_THAT(SummaryOf(status), HasSubstr("4990 more"));
}

}  // namespace
}  // namespace mirrorflow
