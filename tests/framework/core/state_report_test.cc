// SPDX-License-Identifier: Apache-2.0
#include "framework/core/state_report.h"

#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/captured_log.h"

namespace mirrorflow {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

TEST(StateReportTest, LinesOfExistingReportsAreLoggedInOrder) {
  const CapturedLog log;
  const StateReport first([] { return std::vector<std::string>{"a", "b"}; });
  auto second = std::make_unique<StateReport>([] { return std::vector<std::string>{"c"}; });
  StateReport::LogAll();
  EXPECT_THAT(log.lines(), ElementsAre("INFO: a", "INFO: b", "INFO: c"));
  second = nullptr;
  StateReport::LogAll();
  EXPECT_THAT(log.lines(), ElementsAre("INFO: a", "INFO: b", "INFO: c", "INFO: a", "INFO: b"));
}

TEST(StateReportTest, SummaryIsTheFirstLineOfEachReport) {
  const StateReport first([] { return std::vector<std::string>{"a", "b"}; });
  const StateReport empty([] { return std::vector<std::string>(); });
  const StateReport last([] { return std::vector<std::string>{"c"}; });
  EXPECT_THAT(StateReport::Summary(), ElementsAre("a", "c"));
}

TEST(StateReportTest, LogsThatThereIsNothingToReport) {
  const CapturedLog log;
  StateReport::LogAll();
  EXPECT_EQ(log.lines().size(), 1u);
}

TEST(StateReportTest, SignalLogsEachTime) {
  const CapturedLog log;
  int asked = 0;
  const StateReport report([&] { return std::vector<std::string>{absl::StrCat(++asked)}; });
  EXPECT_EQ(StateReport::LogOnSignal(), absl::OkStatus());
  EXPECT_EQ(StateReport::LogOnSignal(), absl::OkStatus());
  for (const char* const line : {"INFO: 1", "INFO: 2"}) {
    ASSERT_EQ(std::raise(SIGUSR1), 0);
    for (int i = 0; i < 3000 && !testing::Value(log.lines(), Contains(line)); ++i) {
      absl::SleepFor(absl::Milliseconds(10));
    }
    EXPECT_THAT(log.lines(), Contains(line));
  }
}

// The object that a report reads must not be destroyed during the call.
TEST(StateReportTest, DestructorWaitsForARunningCall) {
  const CapturedLog log;
  for (int i = 0; i < 100; ++i) {
    auto text = std::make_unique<std::string>("text");
    auto report = std::make_unique<StateReport>([&] { return std::vector<std::string>{*text}; });
    std::thread logs(StateReport::LogAll);
    report = nullptr;
    text = nullptr;
    logs.join();
  }
}

}  // namespace
}  // namespace mirrorflow
