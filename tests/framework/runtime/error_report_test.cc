// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/error_report.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/ascii.h"
#include "framework/core/stack_trace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Returns the error file that ReportError writes.
std::string FileOf(const absl::Status& status) {
  const std::string path = testing::TempDir() + "/error.json";
  setenv("MIRRORFLOW_ERROR_FILE", path.c_str(), /*overwrite=*/1);
  ReportError(status, /*is_victim=*/false);
  unsetenv("MIRRORFLOW_ERROR_FILE");
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

absl::Status Failed(const std::string& collectives) {
  return WithDetails(absl::InternalError("no"), collectives, CaptureStack());
}

TEST(ErrorReportTest, PrintedStatusIsShortAndReadable) {
  const std::string text = Failed(R"([{"step":0}])").ToString();
  EXPECT_LT(text.size(), 80u);
  EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char c) { return absl::ascii_isprint(c); }));
  EXPECT_THAT(text, Not(HasSubstr("\\x")));
}

TEST(ErrorReportTest, EqualErrorsStayEqual) {
  const auto error = [](const char* collectives) {
    return WithDetails(absl::InternalError("no"), collectives, "stack");
  };
  EXPECT_EQ(error("[]"), error("[]"));
  EXPECT_NE(error("[]"), error("[1]"));
}

TEST(ErrorReportTest, ErrorFileHasDetails) {
  const absl::Status first = Failed(R"([{"step":1}])"), second = Failed(R"([{"step":2}])");
  EXPECT_THAT(FileOf(first), HasSubstr(R"("collectives":[{"step":1}])"));
  EXPECT_THAT(FileOf(second), HasSubstr(R"("collectives":[{"step":2}])"));
  EXPECT_THAT(FileOf(second), Not(HasSubstr(R"("stack":"")")));
}

// The error file of a launched worker is a link to its supervisor's descriptor.
TEST(ErrorReportTest, OnlyLinksToDescriptorsAreFollowed) {
  const std::string target = testing::TempDir() + "/target.json";
  const auto report_to = [&](const std::string& path) {
    setenv("MIRRORFLOW_ERROR_FILE", path.c_str(), /*overwrite=*/1);
    ReportError(absl::InternalError("no"), /*is_victim=*/false);
    unsetenv("MIRRORFLOW_ERROR_FILE");
    return std::filesystem::file_size(target) > 0;
  };
  const int fd = open(target.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  ASSERT_GE(fd, 0);
  const std::string link = testing::TempDir() + "/link.json";
  std::filesystem::remove(link);
  std::filesystem::create_symlink(target, link);
  EXPECT_FALSE(report_to(link));
  EXPECT_FALSE(report_to("/proc/.." + link));
  EXPECT_TRUE(report_to("/proc/self/fd/" + std::to_string(fd)));
  close(fd);
}

TEST(ErrorReportTest, DetailsFromAnotherProcessAreUnknown) {
  absl::Status foreign = absl::InternalError("no");
  Failed(R"([{"step":1}])").ForEachPayload([&](absl::string_view type, const absl::Cord&) {
    foreign.SetPayload(type, absl::Cord("1/1"));
  });
  EXPECT_THAT(FileOf(foreign), HasSubstr(R"("stack":"","collectives":[])"));
  EXPECT_THAT(FileOf(absl::InternalError("no")), HasSubstr(R"("stack":"","collectives":[])"));
}

}  // namespace
}  // namespace mirrorflow
