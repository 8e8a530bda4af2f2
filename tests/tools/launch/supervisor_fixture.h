// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TESTS_TOOLS_LAUNCH_SUPERVISOR_FIXTURE_H_
#define MIRRORFLOW_TESTS_TOOLS_LAUNCH_SUPERVISOR_FIXTURE_H_

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "tools/launch/launch.pb.h"
#include "tools/launch/wire.h"

namespace mirrorflow {

// Sends orders to a supervisor in a child process and receives its events.
class SupervisorFixture : public ::testing::Test {
 protected:
  // Runs `supervise`, which returns an exit code. Its standard input carries the orders and its
  // standard output the events.
  void Fork(const std::function<int()>& supervise) {
    int orders[2], events[2];
    ASSERT_EQ(pipe2(orders, O_CLOEXEC), 0);
    ASSERT_EQ(pipe2(events, O_CLOEXEC), 0);
    process_ = fork();
    ASSERT_GE(process_, 0);
    if (process_ == 0) {
      close(orders[1]);
      close(events[0]);
      dup2(orders[0], STDIN_FILENO);
      dup2(events[1], STDOUT_FILENO);
      // Ignore the same signals as a supervisor that the launcher starts.
      for (const int signal : {SIGINT, SIGTERM, SIGPIPE}) ::signal(signal, SIG_IGN);
      _exit(supervise());
    }
    close(orders[0]);
    close(events[1]);
    orders_ = orders[1];
    events_ = events[0];
  }
  // Closes the orders and waits for the supervisor to end. Returns its wait status.
  int Join() {
    CloseOrders();
    int status = 0;
    EXPECT_EQ(waitpid(process_, &status, 0), process_);
    CloseEvents();
    return status;
  }

  void Send(const launch::Order& order) const {
    ASSERT_EQ(WriteMessage(orders_, order), absl::OkStatus());
  }
  void SendSignal(int signal) const {
    launch::Order order;
    order.set_signal(signal);
    Send(order);
  }
  void CloseOrders() {
    if (orders_ >= 0) close(std::exchange(orders_, -1));
  }
  void CloseEvents() {
    if (events_ >= 0) close(std::exchange(events_, -1));
  }

  // Waits for the next event. Returns an event that is not set once the events have ended.
  launch::Event Next() {
    launch::Event event;
    while (true) {
      const absl::StatusOr<bool> whole = reader_.Next(&event);
      EXPECT_EQ(whole.status(), absl::OkStatus());
      if (!whole.ok() || *whole) return event;
      const absl::StatusOr<bool> more = reader_.ReadSome(events_);
      if (!more.ok() || !*more) return launch::Event();
    }
  }

  // Returns the order to start a worker that runs a shell script.
  static launch::Start StartOf(const std::string& script) {
    launch::Start start;
    for (const char* word : {"sh", "-c", script.c_str()}) start.add_command(word);
    start.set_directory(::testing::TempDir());
    start.set_grace_ms(30'000);
    return start;
  }
  static void CreateFile(const std::string& path) {
    close(open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  }

  pid_t process_ = -1;

 private:
  int orders_ = -1, events_ = -1;
  MessageReader reader_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_TOOLS_LAUNCH_SUPERVISOR_FIXTURE_H_
