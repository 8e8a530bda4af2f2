// SPDX-License-Identifier: Apache-2.0
#include "train/trainer/progress_host.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <string>

#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

// Redirects standard error to `fd` during its lifetime.
class StderrIs {
 public:
  explicit StderrIs(int fd) : saved_(dup(STDERR_FILENO)) { dup2(fd, STDERR_FILENO); }
  ~StderrIs() {
    dup2(saved_, STDERR_FILENO);
    close(saved_);
  }

 private:
  const int saved_;
};

// Both ends of a pseudo-terminal with `columns` columns.
struct Terminal {
  explicit Terminal(int columns) : master(posix_openpt(O_RDWR | O_NOCTTY)) {
    grantpt(master);
    unlockpt(master);
    slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    winsize size = {};
    size.ws_col = columns;
    ioctl(slave, TIOCSWINSZ, &size);
  }
  ~Terminal() {
    close(slave);
    close(master);
  }

  int master, slave;
};

TEST(StderrHostTest, DetectsTerminalAndItsChangingWidth) {
  Terminal terminal(97);
  ASSERT_GE(terminal.slave, 0);
  setenv("TERM", "xterm", 1);
  StderrIs redirected(terminal.slave);
  const auto host = StderrHost();
  EXPECT_TRUE(host->IsTerminal());
  EXPECT_EQ(host->Columns(), 97);
  winsize size = {};
  size.ws_col = 33;
  ioctl(terminal.slave, TIOCSWINSZ, &size);
  EXPECT_EQ(host->Columns(), 33);
}

TEST(StderrHostTest, DumbTerminalDoesNotCountAsTerminal) {
  Terminal terminal(0);
  setenv("TERM", "dumb", 1);
  StderrIs redirected(terminal.slave);
  EXPECT_FALSE(StderrHost()->IsTerminal());
  EXPECT_FALSE(StderrHost()->UseColor());
  EXPECT_EQ(StderrHost()->Columns(), 80) << "80 columns if the terminal reports no width";
}

TEST(StderrHostTest, NonEmptyNoColorDisablesColour) {
  Terminal terminal(80);
  setenv("TERM", "xterm", 1);
  StderrIs redirected(terminal.slave);
  unsetenv("NO_COLOR");
  EXPECT_TRUE(StderrHost()->UseColor());
  setenv("NO_COLOR", "", 1);
  EXPECT_TRUE(StderrHost()->UseColor());
  setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(StderrHost()->UseColor());
  unsetenv("NO_COLOR");
}

TEST(StderrHostTest, PipeIsNotATerminalAndReceivesUnbufferedOutput) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  {
    StderrIs redirected(ends[1]);
    const auto host = StderrHost();
    EXPECT_FALSE(host->IsTerminal());
    EXPECT_FALSE(host->UseColor());
    EXPECT_EQ(host->Columns(), 80);
    host->Write("a line\n");
  }
  char text[16];
  ASSERT_EQ(read(ends[0], text, sizeof(text)), 7);
  EXPECT_EQ(std::string(text, 7), "a line\n");
  close(ends[0]);
  close(ends[1]);
}

TEST(StderrHostTest, UptimeIsMonotonic) {
  const auto host = StderrHost();
  const absl::Duration before = host->Uptime();
  EXPECT_GE(host->Uptime(), before);
}

}  // namespace
}  // namespace mirrorflow
