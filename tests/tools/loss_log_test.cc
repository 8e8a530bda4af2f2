// SPDX-License-Identifier: Apache-2.0
#include "tools/loss_log.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"

namespace {

std::function<void()> after_rename;

}  // namespace

// Replaces the C library's function.
extern "C" int rename(const char* from, const char* to) noexcept {
  const int result = static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
  if (result == 0 && after_rename) after_rename();
  return result;
}

namespace mirrorflow {
namespace {

std::string ContentsOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(LossLogTest, KeepsTheLinesUpToTheStep) {
  const std::string path = WriteTemporary("losses", "1 0.5\n2 0.25\n3 0.125\n4 0.");
  for (const int64_t step : {2, 0}) {
    absl::StatusOr<LossLog> log = LossLog::Open(path, step);
    ASSERT_TRUE(log.ok()) << log.status();
    ASSERT_EQ(log->Add(step + 1, 0.75f), absl::OkStatus());
    EXPECT_EQ(ContentsOf(path), step == 0 ? "1 0.75\n" : "1 0.5\n2 0.25\n3 0.75\n");
  }
}

// Another user may be able to write to the log's folder.
TEST(LossLogTest, DoesNotFollowSymbolicLink) {
  const std::string victim = WriteTemporary("victim", "kept"), path = TemporaryPath("linked");
  const auto link = [&] {
    std::filesystem::remove(path);
    std::filesystem::create_symlink(victim, path);
  };
  link();
  absl::StatusOr<LossLog> log = LossLog::Open(path, 0);
  ASSERT_TRUE(log.ok()) << log.status();
  ASSERT_EQ(log->Add(1, 0.5f), absl::OkStatus());
  EXPECT_EQ(ContentsOf(path), "1 0.5\n");
  EXPECT_FALSE(std::filesystem::is_symlink(path)) << "the log must replace the link";

  after_rename = link;  // takes effect while the log is being opened
  const absl::Status status = LossLog::Open(path, 0).status();
  after_rename = nullptr;
  EXPECT_THAT(status, IsError(absl::StatusCode::kFailedPrecondition, path));
  EXPECT_EQ(ContentsOf(victim), "kept");
}

TEST(LossLogTest, LogAboveTheSizeLimitIsRefusedOnResume) {
  const std::string path = WriteTemporary("huge", "1 0.5\n");
  std::filesystem::resize_file(path, (int64_t{512} << 20) + 1);
  const absl::Status status = LossLog::Open(path, 1).status();
  EXPECT_THAT(status, IsError(absl::StatusCode::kResourceExhausted, path));
  EXPECT_TRUE(LossLog::Open(path, 0).ok()) << "a new run must replace the log";
}

}  // namespace
}  // namespace mirrorflow
