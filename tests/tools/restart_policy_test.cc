// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/restart_policy.h"

#include <optional>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/flags/command_line.h"

namespace mirrorflow {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::IsEmpty;
using ::testing::Le;

constexpr int kKilled = 128 + 9;

TEST(RestartPolicyTest, EndsAfterTheLastRestart) {
  RestartPolicy policy({.max_restarts = 2});
  EXPECT_TRUE(policy.PauseAfter({.exit_code = kKilled}).has_value());
  EXPECT_TRUE(policy.PauseAfter({.exit_code = kExitCluster}).has_value());
  EXPECT_FALSE(policy.PauseAfter({.exit_code = kKilled}).has_value());
}

TEST(RestartPolicyTest, OnlyAttemptsThatMaySucceedRestart) {
  for (const int code : {0, int{kExitUsage}, int{kExitBadInput}, int{kExitResources},
                         int{kExitNumeric}, int{kExitInterrupted}}) {
    EXPECT_FALSE(RestartPolicy({.max_restarts = 9}).PauseAfter({.exit_code = code}).has_value())
        << code;
  }
  EXPECT_FALSE(RestartPolicy({}).PauseAfter({.exit_code = kExitPreempted}).has_value());
}

TEST(RestartPolicyTest, LostWorkerStartsAtOnceOnlyAfterProgress) {
  RestartPolicy policy({.max_restarts = 3, .first_pause = absl::Seconds(8)});
  const auto pause = [&](int64_t saved_step) {
    return policy.PauseAfter({.exit_code = kKilled, .saved_step = saved_step, .is_alone = true});
  };
  EXPECT_EQ(pause(0), absl::ZeroDuration());
  EXPECT_THAT(*pause(0), AllOf(Ge(absl::Seconds(4)), Le(absl::Seconds(8))));
  EXPECT_THAT(*pause(0), AllOf(Ge(absl::Seconds(8)), Le(absl::Seconds(16))));
  EXPECT_FALSE(pause(0).has_value());
  EXPECT_EQ(pause(100), absl::ZeroDuration());
  // The restarts of lost workers and of the job share the budget.
  EXPECT_TRUE(policy.PauseAfter({.exit_code = kKilled, .saved_step = 100}).has_value());
  EXPECT_TRUE(pause(100).has_value());
  EXPECT_FALSE(policy.PauseAfter({.exit_code = kKilled, .saved_step = 100}).has_value());
}

TEST(RestartPolicyTest, WorkersLostTogetherCountOnce) {
  RestartPolicy policy({.max_restarts = 2, .first_pause = absl::Seconds(8)});
  for (int loss = 0; loss < 2; ++loss) {
    const auto pause = policy.PauseAfter({.exit_code = kKilled, .is_alone = true});
    ASSERT_TRUE(pause.has_value());
    for (const int code : {kKilled, int{kExitCluster}}) {
      EXPECT_EQ(policy.PauseAfter({.exit_code = code, .is_alone = true, .is_counted = true}),
                pause);
    }
    EXPECT_FALSE(policy.PauseAfter({.exit_code = kExitUsage, .is_counted = true}).has_value());
  }
  EXPECT_FALSE(policy.PauseAfter({.exit_code = kKilled, .is_alone = true}).has_value());
}

TEST(RestartPolicyTest, CheckpointOfLaterStepResetsTheCount) {
  RestartPolicy policy({.max_restarts = 1});
  for (const int step : {100, 200, 300}) {
    EXPECT_TRUE(policy.PauseAfter({.exit_code = kKilled, .saved_step = step}).has_value()) << step;
  }
  // Saving the same step again does not count.
  EXPECT_FALSE(policy.PauseAfter({.exit_code = kKilled, .saved_step = 300}).has_value());
}

TEST(RestartPolicyTest, PreemptionsWithProgressAreUnlimited) {
  RestartPolicy policy({.max_restarts = 1});
  for (int step = 1; step <= 100; ++step) {
    EXPECT_TRUE(policy.PauseAfter({.exit_code = kExitPreempted, .saved_step = step}).has_value());
  }
  EXPECT_TRUE(policy.PauseAfter({.exit_code = kExitPreempted, .saved_step = 101}).has_value());
  EXPECT_FALSE(policy.PauseAfter({.exit_code = kExitPreempted, .saved_step = 101}).has_value());
}

TEST(RestartPolicyTest, PausesDoubleUntilThereIsProgress) {
  RestartPolicy policy({.max_restarts = 100});
  const auto expect_pause = [&](absl::Duration longest, int saved_step) {
    const std::optional<absl::Duration> pause =
        policy.PauseAfter({.exit_code = kKilled, .saved_step = saved_step});
    ASSERT_TRUE(pause.has_value());
    EXPECT_THAT(*pause, AllOf(Ge(longest / 2), Le(longest)));
  };
  for (const int seconds : {1, 2, 4, 8, 16, 32, 60, 60}) expect_pause(absl::Seconds(seconds), 0);
  expect_pause(absl::Seconds(1), 100);
  expect_pause(absl::Seconds(2), 100);
}

TEST(RestartPolicyTest, PausesOfTwoJobsDiffer) {
  const RestartPolicy::Ending killed = {.exit_code = kKilled};
  EXPECT_NE(RestartPolicy({.max_restarts = 1}).PauseAfter(killed),
            RestartPolicy({.max_restarts = 1}).PauseAfter(killed));
}

TEST(RestartPolicyTest, HostThatFailsRepeatedlyIsExcluded) {
  RestartPolicy policy({.max_restarts = 9, .exclude_after = 2});
  policy.PauseAfter({.exit_code = kKilled, .host = "a"});
  policy.PauseAfter({.exit_code = kKilled, .host = "b"});
  policy.PauseAfter({.exit_code = kExitPreempted, .host = "b"});
  EXPECT_THAT(policy.excluded(), IsEmpty());
  policy.PauseAfter({.exit_code = kKilled, .host = "b"});
  EXPECT_THAT(policy.excluded(), ElementsAre("b"));
  policy.IncludeAll();
  EXPECT_THAT(policy.excluded(), IsEmpty());
  policy.PauseAfter({.exit_code = kKilled, .host = "b"});
  EXPECT_THAT(policy.excluded(), IsEmpty());
}

// In a job that runs for weeks, even a good host fails occasionally.
TEST(RestartPolicyTest, FailuresBeforeProgressDoNotExcludeHost) {
  RestartPolicy policy({.max_restarts = 9, .exclude_after = 2});
  for (const int step : {100, 200, 300}) {
    policy.PauseAfter({.exit_code = kKilled, .saved_step = step, .host = "a"});
    EXPECT_THAT(policy.excluded(), IsEmpty());
  }
  policy.PauseAfter({.exit_code = kKilled, .saved_step = 300, .host = "a"});
  EXPECT_THAT(policy.excluded(), ElementsAre("a"));
}

}  // namespace
}  // namespace mirrorflow
