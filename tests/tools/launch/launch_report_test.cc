// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/launch_report.h"

#include <csignal>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/flags/command_line.h"

namespace mirrorflow {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kTerminated = 128 + SIGTERM, kKilled = 128 + SIGKILL;
// A worker that failed because of another worker, and a worker that the launcher ended.
const WorkerEnd kVictim = {.process = 7, .exit_code = kExitCluster, .is_victim = true};
const WorkerEnd kEnded = {
    .process = 7, .exit_code = kTerminated, .signal = SIGTERM, .asked_to_end = true};

WorkerEnd EndWith(int exit_code) { return {.process = 7, .exit_code = exit_code}; }

WorkerEnd OnHost(WorkerEnd end, const char* host) {
  end.host = host;
  return end;
}

TEST(HasStoppedTest, WorkersThatStopByThemselvesMayLeaveVictims) {
  EXPECT_TRUE(HasStopped({EndWith(kExitPreempted), EndWith(0), kVictim}, false));
  for (const WorkerEnd& end : {EndWith(9), EndWith(kExitCluster), EndWith(kTerminated)}) {
    EXPECT_FALSE(HasStopped({EndWith(kExitPreempted), end}, false)) << end.exit_code;
  }
  EXPECT_FALSE(HasStopped({kVictim}, false));
  EXPECT_FALSE(HasStopped({kEnded}, false));
}

TEST(HasStoppedTest, SigtermToTheLauncherMayEndWorkersInAnyWay) {
  // A worker that was not started, and a worker whose remote shell died of the same signal.
  const WorkerEnd not_started = {.exit_code = kKilled, .signal = SIGKILL, .asked_to_end = true};
  for (const WorkerEnd& end :
       {EndWith(kExitPreempted), EndWith(kTerminated), kEnded, not_started}) {
    EXPECT_TRUE(HasStopped({end}, true));
    EXPECT_TRUE(HasStopped({kVictim, EndWith(0), end}, true));
  }
  EXPECT_TRUE(HasStopped({}, true));  // no host had answered
}

TEST(HasStoppedTest, WorkerThatFailsByItselfHasNotStopped) {
  // `killed` ran past the grace period and has not saved.
  const WorkerEnd killed = {
      .process = 7, .exit_code = kKilled, .signal = SIGKILL, .asked_to_end = true};
  for (const WorkerEnd& end : {EndWith(9), EndWith(kExitCluster), EndWith(kKilled), killed}) {
    EXPECT_FALSE(HasStopped({EndWith(kExitPreempted), end}, true)) << end.exit_code;
  }
  EXPECT_FALSE(HasStopped({kVictim}, true)) << "no worker has stopped";
}

TEST(StopReportTest, NamesAWorkerThatHasStoppedIfThereIsOne) {
  EXPECT_THAT(StopReport({kEnded, EndWith(kExitPreempted)}, absl::ZeroDuration()),
              HasSubstr("exit code 75; run the same command to continue"));
  EXPECT_THAT(StopReport({kEnded}, absl::ZeroDuration()), Not(HasSubstr("worker")));
}

TEST(HostAtFaultTest, FirstFailureNamesTheHost) {
  EXPECT_EQ(HostAtFault({OnHost(kVictim, "a"), OnHost(EndWith(9), "b"), OnHost(kEnded, "c")}), "b");
  EXPECT_EQ(HostAtFault({OnHost(EndWith(0), "a")}), "");
}

TEST(HostAtFaultTest, VictimsDoNotAccuseTheirOwnHost) {
  EXPECT_EQ(HostAtFault({OnHost(kVictim, "a"), OnHost(kVictim, "b")}), "");
  // The worker on c hangs, so it is the only one that the launcher has to end.
  const std::vector<WorkerEnd> ends = {OnHost(kVictim, "a"), OnHost(kVictim, "c"),
                                       OnHost(kEnded, "c")};
  EXPECT_EQ(HostAtFault(ends), "c");
  EXPECT_EQ(HostAtFault({OnHost(kVictim, "a"), OnHost(kEnded, "b"), OnHost(kEnded, "c")}), "");
}

}  // namespace
}  // namespace mirrorflow
