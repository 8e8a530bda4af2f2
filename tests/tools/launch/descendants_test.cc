// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/descendants.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

// Starts a child that waits for a signal.
pid_t Child() {
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  return child;
}

int StatusOf(pid_t child) {
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

TEST(DescendantsTest, ChildIsSignalled) {
  const pid_t child = Child();
  EXPECT_TRUE(SignalChildOf(getpid(), child, SIGTERM));
  EXPECT_EQ(WTERMSIG(StatusOf(child)), SIGTERM);
}

// The process id now belongs to a process with another parent.
TEST(DescendantsTest, ProcessOfAnotherParentIsNotSignalled) {
  const pid_t child = Child();
  EXPECT_FALSE(SignalChildOf(child, getppid(), 0));
  EXPECT_FALSE(SignalChildOf(child, 1, 0));
  EXPECT_TRUE(SignalChildOf(getpid(), child, SIGKILL));
  StatusOf(child);
}

TEST(DescendantsTest, ProcessThatHasEndedIsNotSignalled) {
  const pid_t child = Child();
  EXPECT_TRUE(SignalChildOf(getpid(), child, SIGKILL));
  StatusOf(child);
  EXPECT_FALSE(SignalChildOf(getpid(), child, SIGKILL));
}

TEST(DescendantsTest, GrandchildrenAreKilled) {
  BecomeSubreaper();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const pid_t grandchild = Child();
    const ssize_t written = write(ends[1], &grandchild, sizeof(grandchild));
    _exit(written < 0);  // its child has a new parent
  }
  pid_t grandchild = 0;
  ASSERT_EQ(read(ends[0], &grandchild, sizeof(grandchild)),
            static_cast<ssize_t>(sizeof(grandchild)));
  StatusOf(child);
  KillDescendants();
  EXPECT_EQ(kill(grandchild, 0), -1);
}

TEST(DescendantsTest, KeptChildrenAreNotKilled) {
  const pid_t kept = Child(), other = Child();
  KillDescendants({kept});
  EXPECT_EQ(kill(other, 0), -1);
  EXPECT_EQ(kill(kept, 0), 0);
  KillDescendants();
  EXPECT_EQ(kill(kept, 0), -1);
}

}  // namespace
}  // namespace mirrorflow
