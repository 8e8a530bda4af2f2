// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/host_supervisor.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"
#include "tests/tools/launch/supervisor_fixture.h"
#include "tools/launch/launch.pb.h"

namespace mirrorflow {
namespace {

using ::testing::HasSubstr;

constexpr int kNumSlots = 3;

pid_t ParentOf(int64_t process) {
  std::ifstream file(absl::StrCat("/proc/", process, "/stat"));
  std::string number, name, state;  // this name has no spaces
  pid_t parent = 0;
  file >> number >> name >> state >> parent;
  return parent;
}

class HostSupervisorTest : public SupervisorFixture {
 protected:
  void SetUp() override {
    ASSERT_EQ(pipe(held_), 0);
    Fork([this] {
      close(held_[0]);
      return Supervise({absl::StrCat(kNumSlots)}).ok() ? 0 : 1;
    });
    close(held_[1]);
    ASSERT_TRUE(Next().has_ready());
  }

  void TearDown() override {
    EXPECT_EQ(WEXITSTATUS(Join()), expected_exit_code_);
    char byte = 0;
    EXPECT_EQ(read(held_[0], &byte, 1), 0);  // returns once no process is left
    close(held_[0]);
  }

  void Start(int slot, const std::string& script) const {
    launch::Order order;
    *order.mutable_start() = StartOf(script);
    order.mutable_start()->set_slot(slot);
    Send(order);
  }

  // Takes events until `count` workers have ended. Returns how they ended, by slot.
  std::map<int, launch::Ended> TakeEnds(size_t count) {
    std::map<int, launch::Ended> ends;
    while (ends.size() < count) {
      const launch::Event event = Next();
      if (event.event_case() == launch::Event::EVENT_NOT_SET) break;
      output_[event.slot()] += event.output();
      if (event.has_started()) workers_[event.slot()] = event.started();
      if (event.has_ended()) ends[event.slot()] = event.ended();
    }
    EXPECT_EQ(ends.size(), count);
    return ends;
  }
  // Waits until `count` workers have printed something.
  void AwaitOutput(size_t count) {
    while (output_.size() < count) {
      const launch::Event event = Next();
      ASSERT_TRUE(event.has_started() || event.has_output()) << event.ended().reason();
      if (event.has_started()) workers_[event.slot()] = event.started();
      if (event.has_output()) output_[event.slot()] += event.output();
    }
  }

  int expected_exit_code_ = 0;
  int held_[2] = {-1, -1};             // a pipe whose write end all processes inherit
  std::map<int, std::string> output_;  // by slot
  std::map<int, int64_t> workers_;     // process ids, by slot
};

TEST_F(HostSupervisorTest, EventsNameTheSlotOfTheirWorker) {
  for (int slot = 0; slot < kNumSlots; ++slot)
    Start(slot, absl::StrCat("echo ", slot, "; exit ", slot));
  const std::map<int, launch::Ended> ends = TakeEnds(kNumSlots);
  for (int slot = 0; slot < kNumSlots; ++slot) {
    EXPECT_EQ(ends.at(slot).exit_code(), slot);
    EXPECT_EQ(output_[slot], absl::StrCat(slot, "\n"));
  }
  CloseOrders();
  EXPECT_EQ(Next().event_case(), launch::Event::EVENT_NOT_SET);
}

TEST_F(HostSupervisorTest, WorkerStartsAgainInItsSlot) {
  Start(0, "echo x; exec sleep 60");
  for (int i = 1; i <= 3; ++i) {
    Start(1, absl::StrCat("echo again; exit ", i));
    EXPECT_EQ(TakeEnds(1).at(1).exit_code(), i);
  }
  EXPECT_EQ(output_[1], "again\nagain\nagain\n");
  SendSignal(SIGTERM);
  EXPECT_EQ(TakeEnds(2).at(0).signal(), SIGTERM);
}

TEST_F(HostSupervisorTest, WorkerDoesNotStartAgainAfterASignal) {
  Start(0, "exit 1");
  EXPECT_EQ(TakeEnds(1).at(0).exit_code(), 1);
  SendSignal(SIGTERM);
  EXPECT_EQ(TakeEnds(2).size(), 2);
  Start(0, "exit 1");
  EXPECT_EQ(TakeEnds(1).at(0).exit_code(), 128 + SIGTERM);
}

TEST_F(HostSupervisorTest, PortsAreFoundOnceForTheHost) {
  launch::Order order;
  order.set_find_ports(5);
  Send(order);
  EXPECT_EQ(Next().ports().ports_size(), 5);
}

TEST_F(HostSupervisorTest, WorkerThatEndsLeavesTheOthersRunning) {
  Start(0, "echo x; exec sleep 60");
  Start(1, "exit 9");
  EXPECT_EQ(TakeEnds(1).at(1).exit_code(), 9);
  AwaitOutput(1);
  EXPECT_EQ(kill(static_cast<pid_t>(workers_[0]), 0), 0);
  SendSignal(SIGTERM);
  EXPECT_EQ(TakeEnds(2).at(0).signal(), SIGTERM);
}

TEST_F(HostSupervisorTest, SignalReachesRunningWorkersAndIsReasonOfUnstartedWorkers) {
  for (const int slot : {0, 2}) Start(slot, "echo x; exec sleep 60");
  AwaitOutput(2);
  SendSignal(SIGINT);
  const std::map<int, launch::Ended> ends = TakeEnds(kNumSlots);
  for (const int slot : {0, 2}) EXPECT_EQ(ends.at(slot).signal(), SIGINT);
  EXPECT_EQ(ends.at(1).exit_code(), 128 + SIGINT);
  EXPECT_THAT(ends.at(1).reason(), HasSubstr("signal 2"));
}

TEST_F(HostSupervisorTest, ShutdownOfTheHostEndsItsWorkers) {
  Start(0, "trap 'exit 75' TERM; echo x; while :; do sleep 0.01; done");
  AwaitOutput(1);
  kill(process_, SIGTERM);
  const std::map<int, launch::Ended> ends = TakeEnds(kNumSlots);
  EXPECT_EQ(ends.at(0).exit_code(), 75);
  EXPECT_EQ(ends.at(1).exit_code(), 128 + SIGTERM);
}

TEST_F(HostSupervisorTest, SigtermToTheWholeTreeIsOneRequest) {
  const std::string done = absl::StrCat(::testing::TempDir(), "/done");
  unlink(done.c_str());
  Start(0, absl::StrCat("trap 'echo asked' TERM; echo ready; until [ -e ", done,
                        " ]; do sleep 0.01; done"));
  AwaitOutput(1);
  kill(process_, SIGTERM);
  while (output_[0] != "ready\nasked\n") output_[0] += Next().output();
  kill(ParentOf(workers_[0]), SIGTERM);
  SendSignal(SIGTERM);
  launch::Order find_ports;
  find_ports.set_find_ports(1);
  Send(find_ports);
  for (launch::Event event; !event.has_ports(); event = Next()) output_[0] += event.output();
  CreateFile(done);
  TakeEnds(1);
  EXPECT_EQ(output_[0], "ready\nasked\n");
}

TEST_F(HostSupervisorTest, WorkerWhoseSupervisorIsKilledHasAReason) {
  Start(0, "echo x; exec sleep 60");
  Start(1, "echo x; exec sleep 60");
  AwaitOutput(2);
  kill(ParentOf(workers_[0]), SIGKILL);
  const launch::Ended end = TakeEnds(1).at(0);
  EXPECT_EQ(end.exit_code(), 128 + SIGKILL);
  EXPECT_EQ(end.reason(), "its supervisor has ended");
  EXPECT_EQ(kill(static_cast<pid_t>(workers_[1]), 0), 0);
}

TEST_F(HostSupervisorTest, DescendantsEndBeforeAWorkerWhoseSupervisorIsKilled) {
  for (const int slot : {0, 1}) {
    Start(slot, "setsid sleep 60 > /dev/null 2>&1 & echo $!; wait");
  }
  AwaitOutput(2);
  pid_t descendants[2] = {};
  for (const int slot : {0, 1}) ASSERT_TRUE(absl::SimpleAtoi(output_[slot], &descendants[slot]));
  kill(ParentOf(workers_[0]), SIGKILL);
  EXPECT_EQ(TakeEnds(1).at(0).exit_code(), 128 + SIGKILL);
  EXPECT_EQ(kill(descendants[0], 0), -1);
  EXPECT_EQ(kill(descendants[1], 0), 0);
}

TEST_F(HostSupervisorTest, LostLauncherEndsAllWorkersAndTheirDescendants) {
  for (int slot = 0; slot < kNumSlots; ++slot) {
    Start(slot, "setsid sleep 60 > /dev/null 2>&1 & echo x; wait");
  }
  AwaitOutput(kNumSlots);
  CloseOrders();
  CloseEvents();
}

TEST_F(HostSupervisorTest, KilledSupervisorOfAHostLeavesNoProcess) {
  for (int slot = 0; slot < kNumSlots; ++slot) {
    Start(slot, "setsid sleep 60 > /dev/null 2>&1 & echo x; wait");
  }
  AwaitOutput(kNumSlots);
  kill(process_, SIGKILL);
}

TEST_F(HostSupervisorTest, OrderForMissingSlotEndsTheSupervisor) {
  Start(0, "exec sleep 60");
  ASSERT_TRUE(Next().has_started());
  Start(kNumSlots, "true");
  EXPECT_EQ(Next().event_case(), launch::Event::EVENT_NOT_SET);
  expected_exit_code_ = 1;
}

TEST(SuperviseTest, ArgumentIsTheNumberOfWorkers) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{}, {"0"}, {"-1"}, {"x"}, {"4097"}, {"1", "2"}}) {
    EXPECT_THAT(Supervise(arguments),
                IsError(absl::StatusCode::kInvalidArgument, "supervise", "4096"));
  }
}

}  // namespace
}  // namespace mirrorflow
