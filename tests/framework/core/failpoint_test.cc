// SPDX-License-Identifier: Apache-2.0
#include "framework/core/failpoint.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

using ::testing::Contains;
using ::testing::MatchesRegex;

// Sets MIRRORFLOW_FAILPOINTS and creates a failpoint called `place`.
Failpoint& NewFailpoint(const char* setting) {
  static auto* const all = new std::vector<std::unique_ptr<Failpoint>>();
  setenv("MIRRORFLOW_FAILPOINTS", setting, 1);
  return *all->emplace_back(std::make_unique<Failpoint>("place"));
}

class FailpointTest : public testing::Test {
 protected:
  ~FailpointTest() override {
    unsetenv("MIRRORFLOW_FAILPOINTS");
    Failpoint::SetWorker(0);
  }
};

TEST_F(FailpointTest, DoesNothingUnlessItIsSet) {
  EXPECT_TRUE(NewFailpoint("").Pass().ok());
  EXPECT_TRUE(NewFailpoint("other=error").Pass().ok());
  EXPECT_THAT(Failpoint::Names(), Contains("place"));
}

TEST_F(FailpointTest, WarnsOnceOnOneLineIfTheVariableIsSet) {
  GTEST_FLAG_SET(death_test_style,
                 "threadsafe");  // runs the statement in a fresh process, which has not warned yet
  const auto create_two = [](const char* setting) {
    NewFailpoint(setting);
    NewFailpoint(setting);
    _exit(0);
  };
  EXPECT_EXIT(create_two("place=error"), testing::ExitedWithCode(0),
              MatchesRegex("WARNING: MIRRORFLOW_FAILPOINTS: [^\n]*place=error[^\n]*\n"));
  EXPECT_EXIT(create_two(""), testing::ExitedWithCode(0), "^$");
}

auto FailsOnPurpose() { return IsError(absl::StatusCode::kInternal, "failpoint place"); }

TEST_F(FailpointTest, FailsAtEveryPassOrAtOne) {
  Failpoint& always = NewFailpoint("other=kill,place=error");
  EXPECT_THAT(always.Pass(), FailsOnPurpose());
  EXPECT_THAT(always.Pass(), FailsOnPurpose());
  Failpoint& second = NewFailpoint("place=error#2");
  EXPECT_TRUE(second.Pass().ok());
  EXPECT_THAT(second.Pass(), FailsOnPurpose());
  EXPECT_TRUE(second.Pass().ok());
}

TEST_F(FailpointTest, FailsOnOneWorker) {
  Failpoint& failpoint = NewFailpoint("place=error@3#1");
  EXPECT_TRUE(failpoint.Pass().ok());
  Failpoint::SetWorker(3);
  EXPECT_THAT(failpoint.Pass(), FailsOnPurpose());
}

TEST_F(FailpointTest, KillOrExitEndsTheProcess) {
  for (const char* setting : {"place=exit", "place=kill"}) {
    Failpoint& failpoint = NewFailpoint(setting);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      failpoint.Pass().IgnoreError();
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (std::string(setting) == "place=exit") {
      EXPECT_EQ(WEXITSTATUS(status), 1);
    } else {
      EXPECT_EQ(WTERMSIG(status), SIGKILL);
    }
  }
}

TEST_F(FailpointTest, DelaysThePassAndContinues) {
  Failpoint& failpoint = NewFailpoint("place=delay");
  const absl::Time begin = absl::Now();
  EXPECT_TRUE(failpoint.Pass().ok());
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(100));
}

TEST_F(FailpointTest, StopsTheProcessUntilItIsContinued) {
  Failpoint& failpoint = NewFailpoint("place=stop#1");
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(failpoint.Pass().ok() && failpoint.Pass().ok() ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  EXPECT_TRUE(WIFSTOPPED(status));
  kill(child, SIGCONT);
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(FailpointTest, ErrorsNameMistakesInTheEnvironment) {
  NewFailpoint("");
  const struct {
    const char *setting, *message;
  } cases[] = {
      {"plase=kill", "no failpoint 'plase'; did you mean place?"},
      {"place", "got 'place'"},
      {"place=explode", "expected NAME=delay|error|exit|kill|hang|stop[@WORKER][#COUNT]"},
      {"place=kill#0", "malformed"},
      {"place=kill@x", "malformed"},
      {"place=kill=kill", "malformed"},
  };
  for (const auto& c : cases) {
    setenv("MIRRORFLOW_FAILPOINTS", c.setting, 1);
    const absl::Status status = Failpoint::CheckEnvironment();
    EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, c.message));
  }
  setenv("MIRRORFLOW_FAILPOINTS", "place=hang@1#4,", 1);
  EXPECT_TRUE(Failpoint::CheckEnvironment().ok());
}

}  // namespace
}  // namespace mirrorflow
