// SPDX-License-Identifier: Apache-2.0
#include "tools/report/report.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"
#include "tests/tools/report/well_formed.h"

ABSL_DECLARE_FLAG(std::string, html);

namespace mirrorflow {
namespace {

using ::testing::HasSubstr;

struct Result {
  absl::Status status;
  ExitCode code = kExitOk;
};

Result Report(const std::vector<std::string>& args, const std::string& html = "") {
  absl::SetFlag(&FLAGS_html, html);
  Result result;
  result.status = WriteReport(args, &result.code);
  return result;
}

std::string Contents(const std::string& path) {
  std::stringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

std::string NewRun(const std::string& name) {
  std::filesystem::remove_all(TemporaryPath(name));
  WriteTemporary(name + "/log.jsonl",
                 R"({"time":"2026-01-05T12:00:00Z","worker":0,"epoch":1,"step":7,"loss":0.25})");
  return TemporaryPath(name);
}

TEST(WriteReportTest, WritesAPageIntoTheDirectory) {
  const std::string run = NewRun("runs/first");
  for (const std::string& argument : {run, run + "/", run + "/../first"}) {
    std::filesystem::remove(run + "/report.html");
    const Result result = Report({argument});
    ASSERT_TRUE(result.status.ok()) << result.status;
    const std::string page = Contents(run + "/report.html");
    EXPECT_EQ(WellFormed(page), "");
    EXPECT_THAT(page, HasSubstr("<h1>first</h1>"));
    EXPECT_THAT(page, HasSubstr("0.25</b><span>last loss<"));
  }
  // The page of the first call is not a file of the run.
  EXPECT_TRUE(Report({run}).status.ok());
  EXPECT_EQ(CountOf(Contents(run + "/report.html"), "report.html"), 0);
}

TEST(WriteReportTest, WritesThePageThatTheFlagNames) {
  const std::string run = NewRun("second"), page = TemporaryPath("page.html");
  ASSERT_TRUE(Report({run}, page).status.ok());
  EXPECT_THAT(Contents(page), HasSubstr("<h1>second</h1>"));
  EXPECT_FALSE(std::filesystem::exists(run + "/report.html"));
}

TEST(WriteReportTest, NamesBadArgumentsAndDirectories) {
  const std::string run = NewRun("third");
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{}, std::vector<std::string>{run, run}}) {
    const Result result = Report(args);
    EXPECT_EQ(result.code, kExitUsage);
    EXPECT_THAT(result.status, IsError(absl::StatusCode::kInvalidArgument, "report:", "one run"));
  }
  const Result unwritable = Report({run}, "/no/such/directory/page.html");
  EXPECT_EQ(unwritable.code, kExitUsage);
  EXPECT_THAT(unwritable.status, IsError(absl::StatusCode::kNotFound, "--html=/no/such/directory"));
  const Result missing = Report({run + "/none"});
  EXPECT_EQ(missing.code, kExitBadInput);
  EXPECT_THAT(missing.status,
              IsError(absl::StatusCode::kNotFound, "third/none:", "no such directory"));
  std::filesystem::remove(run + "/log.jsonl");
  const Result empty = Report({run});
  EXPECT_EQ(empty.code, kExitBadInput);
  EXPECT_THAT(empty.status, IsError(absl::StatusCode::kInvalidArgument, "no file", "a run"));
  EXPECT_FALSE(std::filesystem::exists(run + "/report.html"));
}

}  // namespace
}  // namespace mirrorflow
