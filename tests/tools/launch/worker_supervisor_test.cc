// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/worker_supervisor.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "framework/core/monotonic_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/launch/supervisor_fixture.h"
#include "tools/launch/launch.pb.h"

namespace mirrorflow {
namespace {

using ::testing::HasSubstr;

class WorkerSupervisorTest : public SupervisorFixture {
 protected:
  void TearDown() override {
    EXPECT_EQ(Join(), 0);
    close(clock_);
  }

  // Moves the supervisor's clock forward.
  void Advance(char seconds) const {
    ASSERT_EQ(write(clock_, &seconds, 1), 1);
    ASSERT_EQ(read(clock_, &seconds, 1), 1);
  }

  // Starts a worker that runs a script.
  void Start(const std::string& script) {
    Supervise(StartOf(script));
    ASSERT_GT(Next().started(), 0);
  }
  void Supervise(const launch::Start& start) {
    int clock[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, clock), 0);
    Fork([&] {
      close(clock[0]);
      sigset_t all;  // signals go to the supervisor and not to the thread
      sigfillset(&all);
      sigprocmask(SIG_BLOCK, &all, nullptr);
      std::thread([fd = clock[1]] { FollowClock(fd); }).detach();
      return SuperviseWorker(start).ok() ? 0 : 1;
    });
    close(clock[1]);
    clock_ = clock[0];
  }

  // Waits until the worker has printed the text `count` more times. Returns all output until then.
  std::string OutputUntil(const std::string& text, int count = 1) {
    std::string output;
    for (int seen = 0; seen < count;) {
      const launch::Event event = Next();
      if (event.event_case() == launch::Event::EVENT_NOT_SET) break;
      output += event.output();
      seen = 0;
      for (size_t at = 0; (at = output.find(text, at)) != std::string::npos; ++at) ++seen;
    }
    return output;
  }

 private:
  static void FollowClock(int fd) {
    for (char seconds; read(fd, &seconds, 1) == 1;) {
      MonotonicTime::AdvanceForTest(absl::Seconds(seconds));
      if (write(fd, &seconds, 1) != 1) return;
    }
  }

  int clock_ = -1;
};

TEST_F(WorkerSupervisorTest, EndingWorkerKeepsItsGraceWithoutLauncher) {
  const std::string done = absl::StrCat(::testing::TempDir(), "/done");
  unlink(done.c_str());
  Start(absl::StrCat("trap 'echo asked' TERM; echo ready; until [ -e ", done,
                     " ]; do sleep 0.01; echo saving; done"));
  OutputUntil("ready");
  SendSignal(SIGTERM);
  OutputUntil("asked");
  Advance(6);  // after this time, a second request is a new request
  CloseOrders();
  OutputUntil("saving", 3);  // by now the supervisor has seen the end of its orders
  Advance(3);
  EXPECT_THAT(OutputUntil("saving", 10), Not(HasSubstr("asked")));
  CreateFile(done);
}

TEST_F(WorkerSupervisorTest, LostLauncherEndsTheWorker) {
  Start("trap 'echo asked; exit 75' TERM; echo ready; while :; do sleep 0.01; done");
  OutputUntil("ready");
  CloseOrders();
  OutputUntil("asked");
}

TEST_F(WorkerSupervisorTest, WorkerThatCannotRunIsReported) {
  launch::Start start;
  start.add_command("./no-such-program");
  start.set_directory(::testing::TempDir());
  Supervise(start);
  const launch::Event event = Next();
  ASSERT_TRUE(event.has_ended());
  EXPECT_EQ(event.ended().exit_code(), 0);
  EXPECT_THAT(event.ended().reason(), HasSubstr("no-such-program"));
}

TEST_F(WorkerSupervisorTest, WorkerDoesNotInheritIgnoredSignals) {
  Start("kill -INT $$; kill -TERM $$; echo survived");
  const launch::Event event = Next();
  ASSERT_TRUE(event.has_ended()) << event.output();
  EXPECT_EQ(event.ended().signal(), SIGINT);
}

TEST_F(WorkerSupervisorTest, SavedStepIsReportedAtOnce) {
  // The worker prints nothing, so only the supervisor's timer can make it notice the step.
  Start("echo 100 > $MIRRORFLOW_PROGRESS_FILE; exec sleep 60");
  EXPECT_EQ(Next().saved(), 100);
}

TEST_F(WorkerSupervisorTest, SavedStepsComeBeforeLaterOutputAndBeforeTheEnd) {
  const std::string read = absl::StrCat(::testing::TempDir(), "/read");
  unlink(read.c_str());
  Start(absl::StrCat(
      "for step in 5 4 99999999999999 -1 x 7; do echo $step > "
      "$MIRRORFLOW_PROGRESS_FILE; echo $step; until [ -e ",
      read, " ]; do sleep 0.01; done; rm ", read, "; done; echo 9 > $MIRRORFLOW_PROGRESS_FILE"));
  for (const int64_t step : {5, 0, 0, 0, 0, 7}) {
    if (step > 0) {
      EXPECT_EQ(Next().saved(), step);
    }
    EXPECT_TRUE(Next().has_output()) << step;
    CreateFile(read);
  }
  EXPECT_EQ(Next().saved(), 9);
  EXPECT_TRUE(Next().has_ended());
}

}  // namespace
}  // namespace mirrorflow
