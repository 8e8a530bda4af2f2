// SPDX-License-Identifier: Apache-2.0
#include "framework/core/log_line.h"

#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "framework/core/json.h"
#include "framework/core/log.h"
#include "framework/core/utf8.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

using testing::MatchesRegex;
using Json = nlohmann::ordered_json;

const absl::Time kTime = absl::FromUnixMicros(1'767'614'410'023'456);
constexpr char kTimeRegex[] = "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{6}Z";

Json Parsed(const std::string& line) {
  const absl::StatusOr<Json> json = ParseJson<Json>(line);
  EXPECT_TRUE(json.ok()) << line;
  return json.value_or(Json());
}

// Returns what a process that runs `body` with MIRRORFLOW_LOG_FORMAT=`format` prints to standard
// error.
std::string ErrorsWith(const char* format, const std::function<void()>& body) {
  std::string errors;
  // The variable is read only once per process, so EXPECT_EXIT runs the body in a fresh one.
  EXPECT_EXIT(
      {
        setenv("MIRRORFLOW_LOG_FORMAT", format, /*overwrite=*/1);
        body();
        std::_Exit(testing::Test::HasFailure() ? 1 : 0);
      },
      testing::ExitedWithCode(0), testing::Truly([&](const std::string& text) {
        errors = text;
        return true;
      }));
  return errors;
}

TEST(JsonLogLineTest, KnownFieldsAreWrittenInOrder) {
  EXPECT_EQ(JsonLogLine({.time = kTime,
                         .severity = absl::LogSeverity::kWarning,
                         .job = "mlp",
                         .worker = 3,
                         .process = 1234},
                        "leaves out"),
            R"({"time":"2026-01-05T12:00:10.023456Z","severity":"WARNING","job":"mlp","worker":3,)"
            R"("process":1234,"message":"leaves out"})");
  EXPECT_EQ(JsonLogLine({.time = kTime}, ""),
            R"({"time":"2026-01-05T12:00:10.023456Z","message":""})");
}

TEST(JsonLogLineTest, QuotesControlCharactersAndBrokenUtf8AreEscaped) {
  const auto message = [](absl::string_view text) {
    return Parsed(JsonLogLine({.time = kTime}, text))["message"].get<std::string>();
  };
  EXPECT_EQ(message(R"(say "no" to \)"), R"(say "no" to \)");
  EXPECT_EQ(message("größer → ∞"), "größer → ∞");
  EXPECT_EQ(message("one\ntwo"), "one\ntwo");
  EXPECT_EQ(message("red \033[31m\a\x7f"), "red \\033[31m\\007\\177");
  EXPECT_EQ(message(absl::string_view("a\0b", 3)), "a\\000b");
  EXPECT_EQ(message("latin-1 \xfc"), "latin-1 \xef\xbf\xbd");
  EXPECT_EQ(message("\xc2\x9b"
                    "31m"),
            "\\302\\23331m");
  EXPECT_EQ(Parsed(JsonLogLine({.time = kTime, .job = "a \"b\"\n\xff"}, ""))["job"],
            "a \"b\"\n\xef\xbf\xbd");
}

TEST(JsonLogLineTest, AnyBytesBecomeOneLineOfValidJson) {
  std::mt19937 random(7);
  for (int i = 0; i < 5000; ++i) {
    std::string texts[2];
    for (std::string& text : texts) {
      text.resize(random() % 40);
      for (char& c : text) c = static_cast<char>(random());
    }
    const std::string line = JsonLogLine({.time = kTime, .job = texts[0], .worker = i}, texts[1]);
    ASSERT_TRUE(IsUtf8(line)) << line;
    ASSERT_EQ(line.find_first_of("\n\r\0"), std::string::npos) << line;
    const Json json = Parsed(line);
    ASSERT_EQ(json["worker"], i);
    ASSERT_TRUE(json["message"].is_string()) << line;
  }
}

TEST(LogLineDeathTest, JsonHasTimeSeverityJobWorkerAndProcess) {
  const std::string errors = ErrorsWith("json", [] {
    const LogIdentity identity("a job", 3);
    LogWarning("leaves out");
    PrintErrorLine(absl::LogSeverity::kError, "INTERNAL why", "ERROR ");
    PrintErrorReport(absl::LogSeverity::kError, "first\n  second\n");
    PrintErrorLiteral("RESOURCE_EXHAUSTED memory");
  });
  std::vector<Json> lines;
  for (absl::string_view line : absl::StrSplit(absl::StripSuffix(errors, "\n"), '\n')) {
    lines.push_back(Parsed(std::string(line)));
    EXPECT_THAT(lines.back().value("time", ""), MatchesRegex(kTimeRegex)) << line;
    EXPECT_EQ(lines.back().value("job", ""), "a job") << line;
    EXPECT_EQ(lines.back().value("worker", -1), 3) << line;
    EXPECT_GT(lines.back().value("process", -1), 0) << line;
  }
  ASSERT_EQ(lines.size(), 4);
  EXPECT_EQ(lines[0]["severity"], "WARNING");
  EXPECT_EQ(lines[0]["message"], "leaves out");
  EXPECT_EQ(lines[1]["severity"], "ERROR");
  EXPECT_EQ(lines[1]["message"], "INTERNAL why");
  EXPECT_EQ(lines[2]["message"], "first\n  second");
  EXPECT_EQ(lines[3]["message"], "RESOURCE_EXHAUSTED memory");
}

TEST(LogLineDeathTest, TextLineOfWorkerBeginsWithTimeJobAndWorker) {
  const auto log = [] {
    LogWarning("alone");
    {
      const LogIdentity job("mlp", std::nullopt);
      LogWarning("no worker");
      const LogIdentity identity("mlp", 3);
      LogWarning("unknown worker");
    }
    const LogIdentity identity("launch 4f", 3);
    LogWarning("leaves out");
    PrintErrorLine(absl::LogSeverity::kError, "INTERNAL why", "ERROR ");
    PrintErrorLiteral("RESOURCE_EXHAUSTED memory");
  };
  EXPECT_THAT(ErrorsWith("text", log),
              MatchesRegex(absl::StrCat(
                  "WARNING: alone\nWARNING: no worker\nWARNING: unknown worker\n", kTimeRegex,
                  " job=\"launch 4f\" worker=3 WARNING: leaves out\n", kTimeRegex,
                  " job=\"launch 4f\" worker=3 ERROR INTERNAL why\n", kTimeRegex,
                  " job=\"launch 4f\" worker=3 ERROR RESOURCE_EXHAUSTED memory\n")));
  EXPECT_EQ(ErrorsWith("plain", log),
            "WARNING: alone\nWARNING: no worker\nWARNING: unknown worker\nWARNING: leaves out\n"
            "ERROR INTERNAL why\nERROR RESOURCE_EXHAUSTED memory\n");
}

TEST(LogLineDeathTest, ProcessInSeveralClustersLogsTheLabelsThatAllShare) {
  const std::string errors = ErrorsWith("json", [] {
    auto first = std::make_unique<LogIdentity>("mlp", 3);
    auto second = std::make_unique<LogIdentity>("mlp", 4);
    LogInfo("both");
    first = nullptr;
    LogInfo("second");
    second = nullptr;
    LogInfo("none");
  });
  const std::vector<std::string> lines = absl::StrSplit(errors, '\n');
  ASSERT_EQ(lines.size(), 4);
  EXPECT_EQ(Parsed(lines[0]).value("job", ""), "mlp");
  EXPECT_FALSE(Parsed(lines[0]).contains("worker"));
  EXPECT_EQ(Parsed(lines[1]).value("worker", -1), 4);
  EXPECT_FALSE(Parsed(lines[2]).contains("job"));
  EXPECT_FALSE(Parsed(lines[2]).contains("worker"));
}

TEST(LogLineDeathTest, MinLogLevelHidesLinesInJson) {
  const std::string errors = ErrorsWith("json", [] {
    setenv("MIRRORFLOW_MIN_LOG_LEVEL", "1", /*overwrite=*/1);
    LogInfo("waits");
    LogWarning("leaves out");
  });
  EXPECT_EQ(Parsed(errors).value("message", ""), "leaves out");
}

TEST(LogLineDeathTest, LiteralIsAnObjectEvenIfTheJobNameIsVeryLong) {
  const std::string errors = ErrorsWith("json", [] {
    const LogIdentity identity(std::string(5000, 'j'), 3);
    PrintErrorLiteral("RESOURCE_EXHAUSTED memory");
  });
  EXPECT_EQ(Parsed(errors).value("message", ""), "RESOURCE_EXHAUSTED memory");
}

TEST(CheckLogFormatTest, UnknownFormatIsAnErrorAndLogsText) {
  EXPECT_EQ(ErrorsWith("xml",
                       [] {
                         EXPECT_THAT(CheckLogFormat(), IsError(absl::StatusCode::kInvalidArgument,
                                                               "MIRRORFLOW_LOG_FORMAT", "json"));
                         LogWarning("leaves out");
                       }),
            "WARNING: leaves out\n");
}

}  // namespace
}  // namespace mirrorflow
