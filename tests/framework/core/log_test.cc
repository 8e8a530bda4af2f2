// SPDX-License-Identifier: Apache-2.0
#include "framework/core/log.h"

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/log_severity.h"
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/captured_log.h"

namespace mirrorflow {
namespace {

using testing::ElementsAre;

void LogOneLinePerSeverity() {
  LogInfo("waits\x1b[2J");
  LogWarning("leaves out");
  Log(absl::LogSeverity::kError, "fails");
}

TEST(LogTest, PrintsToStderrWithSeverity) {
  testing::internal::CaptureStderr();
  LogOneLinePerSeverity();
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "mirrorflow: waits\\033[2J\nWARNING: leaves out\nERROR: fails\n");
}

TEST(LogDeathTest, MinLogLevelHidesLowerSeverities) {
  const auto log_at = [](const char* level) {
    setenv("MIRRORFLOW_MIN_LOG_LEVEL", level, /*overwrite=*/1);
    LogOneLinePerSeverity();
    std::_Exit(0);
  };
  EXPECT_EXIT(log_at("1"), testing::ExitedWithCode(0), "^WARNING: leaves out\nERROR: fails\n$");
  EXPECT_EXIT(log_at("2"), testing::ExitedWithCode(0), "^ERROR: fails\n$");
  EXPECT_EXIT(log_at("many"), testing::ExitedWithCode(0), "^mirrorflow: ");
}

TEST(LogDeathTest, FailedCheckInSinkIsPrintedEvenIfLevelIsAboveAll) {
  const auto fail = [] {
    setenv("MIRRORFLOW_MIN_LOG_LEVEL", "9", /*overwrite=*/1);
    SetLogSink([](absl::LogSeverity, absl::string_view) { MF_CHECK(1 + 1 == 3); });
    LogInfo("any");
  };
  EXPECT_DEATH(fail(), "FATAL.*log_test.cc:.*1 \\+ 1 == 3");
}

TEST(LogTest, SinkReceivesEscapedLinesUntilItIsReset) {
  std::vector<std::string> lines;
  testing::internal::CaptureStderr();
  SetLogSink([&](absl::LogSeverity severity, absl::string_view line) {
    lines.push_back(absl::StrCat(absl::LogSeverityName(severity), " ", line));
  });
  LogOneLinePerSeverity();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_THAT(lines, ElementsAre("INFO waits\\033[2J", "WARNING leaves out", "ERROR fails"));
  SetLogSink(nullptr);
  testing::internal::CaptureStderr();
  LogInfo("waits");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "mirrorflow: waits\n");
  EXPECT_EQ(lines.size(), 3);
}

// A line that the sink itself logs is not passed to it again, and another thread may replace the
// sink.
TEST(LogTest, SinkMayLogAndBeReplaced) {
  SetLogSink([](absl::LogSeverity, absl::string_view line) {
    EXPECT_NE(line, "inner");
    LogInfo("inner");
    if (line == "last") SetLogSink(nullptr);
  });
  std::thread other([] {
    for (int i = 0; i < 1000; ++i) LogInfo("outer");
  });
  for (int i = 0; i < 1000; ++i) {
    SetLogSink([](absl::LogSeverity, absl::string_view) {});
  }
  other.join();
  CapturedLog log;
  LogInfo("later");
  EXPECT_THAT(log.lines(), ElementsAre("INFO: later"));
}

TEST(LogDeathTest, FailedCheckReachesSinkBeforeProcessAborts) {
  const auto fail = [] {
    SetLogSink([](absl::LogSeverity severity, absl::string_view line) {
      std::fprintf(stderr, "%s|%s\n", absl::LogSeverityName(severity), std::string(line).c_str());
    });
    MF_CHECK(1 + 1 == 3);
  };
  EXPECT_DEATH(fail(), "FATAL.*log_test.cc:.*1 \\+ 1 == 3");
}

}  // namespace
}  // namespace mirrorflow
