// SPDX-License-Identifier: Apache-2.0
#include "framework/core/file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;

// Gives each test its own, initially empty directory.
class FileTest : public ::testing::Test {
 protected:
  FileTest()
      : directory_(absl::StrCat(::testing::TempDir(), "/",
                                ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }

  std::string Path(absl::string_view name) const { return absl::StrCat(directory_, "/", name); }

  std::set<std::string> Names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      names.insert(entry.path().filename());
    }
    return names;
  }

  static std::string Contents(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }

  const std::string directory_;
};

TEST_F(FileTest, ReadReturnsWrittenBytes) {
  ASSERT_TRUE(WriteFileAtomically(Path("a"), {"one ", "", "two"}).ok());
  const auto file = InputFile::Open(Path("a"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->size(), 7u);
  char text[3];
  ASSERT_TRUE(file->Read(4, 3, text).ok());
  EXPECT_EQ(absl::string_view(text, 3), "two");
  EXPECT_EQ(Names(), std::set<std::string>{"a"});
}

// Large files are written in blocks of 1 MiB.
TEST_F(FileTest, LargeFileIsWrittenCompletely) {
  constexpr size_t kBlock = size_t{1} << 20;
  std::string text(3 * kBlock + 123, '\0');
  uint32_t x = 1;
  for (char& c : text) c = static_cast<char>((x = x * 1664525 + 1013904223) >> 24);
  for (const size_t size : {kBlock - 1, kBlock, kBlock + 1, kBlock + 4096, text.size()}) {
    // Some pieces end within a block, some end at a block boundary, and some span several blocks.
    for (const size_t first : {size_t{0}, size_t{7}, kBlock - 1, size}) {
      const absl::string_view whole = absl::string_view(text).substr(0, size);
      ASSERT_TRUE(
          WriteFileAtomically(Path("a"), {whole.substr(0, first), whole.substr(first)}).ok());
      EXPECT_TRUE(Contents(Path("a")) == whole)
          << size << " bytes; size of the first piece: " << first;
    }
  }
}

TEST_F(FileTest, WriteReplacesOldFileWithEmptyOne) {
  ASSERT_TRUE(WriteFileAtomically(Path("a"), {"old contents"}).ok());
  ASSERT_TRUE(WriteFileAtomically(Path("a"), {}).ok());
  EXPECT_EQ(std::filesystem::file_size(Path("a")), 0u);
  EXPECT_EQ(Names(), std::set<std::string>{"a"});
}

TEST_F(FileTest, WriteAcceptsPlainAndLongNames) {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(directory_);
  EXPECT_TRUE(WriteFileAtomically("plain", {"x"}).ok());
  std::filesystem::current_path(before);
  EXPECT_EQ(Contents(Path("plain")), "x");
  EXPECT_TRUE(WriteFileAtomically(Path(std::string(255, 'n')), {"x"}).ok());
}

TEST_F(FileTest, ReadPastEndFailsWithBothSizes) {
  ASSERT_TRUE(WriteFileAtomically(Path("a"), {"1234"}).ok());
  const auto file = InputFile::Open(Path("a"));
  char text[8];
  const absl::Status status = file->Read(2, 8, text);
  EXPECT_THAT(status,
              IsError(absl::StatusCode::kDataLoss, Path("a"), "expected 10 bytes", "got 4"));
}

TEST_F(FileTest, OpenAcceptsOnlyRegularFiles) {
  EXPECT_THAT(InputFile::Open(Path("missing")).status(),
              IsError(absl::StatusCode::kNotFound, Path("missing")));
  EXPECT_THAT(InputFile::Open(directory_).status(),
              IsError(absl::StatusCode::kFailedPrecondition, directory_, "got a directory"));
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(InputFile::Open(Path("pipe")).status(),
              IsError(absl::StatusCode::kFailedPrecondition, "got a pipe"));
  EXPECT_THAT(InputFile::Open("/dev/null").status(),
              IsError(absl::StatusCode::kFailedPrecondition, "got a device"));
}

TEST_F(FileTest, WriteRejectsNonRegularFiles) {
  for (const std::string& path : {directory_, std::string("/dev/null")}) {
    EXPECT_THAT(WriteFileAtomically(path, {"x"}),
                IsError(absl::StatusCode::kFailedPrecondition, path, "expected a file"));
  }
  struct stat info;
  ASSERT_EQ(stat("/dev/null", &info), 0);
  EXPECT_TRUE(S_ISCHR(info.st_mode));
  EXPECT_THAT(WriteFileAtomically(Path("a/"), {"x"}),
              IsError(absl::StatusCode::kInvalidArgument, Path("a/"), "directory"));
  EXPECT_THAT(WriteFileAtomically("", {"x"}),
              IsError(absl::StatusCode::kInvalidArgument, "name of a file"));
}

TEST_F(FileTest, WriteErrorNamesMissingDirectory) {
  const absl::Status status = WriteFileAtomically(Path("no/such/file"), {"x"});
  EXPECT_THAT(status, IsError(absl::StatusCode::kNotFound, Path("no/such/file")));
}

TEST_F(FileTest, WriteWithoutSpaceKeepsOldFileAndLeavesNoTemporary) {
  ASSERT_TRUE(WriteFileAtomically(Path("a"), {"old"}).ok());
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 4096;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  signal(SIGXFSZ, SIG_IGN);
  const absl::Status status = WriteFileAtomically(Path("a"), {std::string(10'000, 'x')});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(status, IsError(absl::StatusCode::kResourceExhausted, "needs 10000 bytes"));
  EXPECT_EQ(Contents(Path("a")), "old");
  EXPECT_EQ(Names(), std::set<std::string>{"a"});
}

TEST_F(FileTest, CheckWritableLeavesNoFiles) {
  EXPECT_TRUE(CheckWritable(Path("a")).ok());
  EXPECT_TRUE(Names().empty());
  ASSERT_TRUE(WriteFileAtomically(Path("a"), {"old"}).ok());
  EXPECT_TRUE(CheckWritable(Path("a")).ok());
  EXPECT_EQ(Contents(Path("a")), "old");
  EXPECT_EQ(Names(), std::set<std::string>{"a"});
  constexpr absl::StatusCode kFailed = absl::StatusCode::kFailedPrecondition;
  for (const auto& [path, code] : std::vector<std::pair<std::string, absl::StatusCode>>{
           {directory_, kFailed},
           {Path("no/file"), absl::StatusCode::kNotFound},
           {Path("a/file"), kFailed},
           {Path("a/"), absl::StatusCode::kInvalidArgument},
           {"/dev/null", kFailed},
           {"/proc/file", absl::StatusCode::kNotFound}}) {
    EXPECT_THAT(CheckWritable(path), IsError(code, path + ": "));
  }
}

TEST_F(FileTest, WriteSyncsFileBeforeRenameAndDirectoryAfter) {
  std::vector<std::string> steps;
  ASSERT_TRUE(WriteFileAtomically(Path("a"), {"x", "y"}, [&](absl::string_view step) {
                steps.emplace_back(step);
                return absl::OkStatus();
              }).ok());
  EXPECT_THAT(steps, ElementsAre("open", "reserve", "write", "write", "fsync", "close", "rename",
                                 "fsync_directory"));
}

TEST_F(FileTest, CrashAtAnyStepLeavesOldOrNewFile) {
  constexpr int kSteps = 8;
  for (int crash_at = 0; crash_at < kSteps; ++crash_at) {
    ASSERT_TRUE(WriteFileAtomically(Path("a"), {"old"}).ok());
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      int step = 0;
      (void)!WriteFileAtomically(Path("a"), {"new ", "contents"}, [&](absl::string_view) {
        if (step++ == crash_at) kill(getpid(), SIGKILL);
        return absl::OkStatus();
      }).ok();
      _exit(0);
    }
    int status;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the write has no step " << crash_at;
    EXPECT_EQ(Contents(Path("a")), crash_at < kSteps - 1 ? "old" : "new contents") << crash_at;
  }
}

TEST_F(FileTest, WrittenFileHasPermissionsThatUmaskAllows) {
  for (const auto& [mask, expected] : {std::pair(0u, 0666u), {022u, 0644u}, {077u, 0600u}}) {
    const mode_t before = umask(mask);
    const absl::Status written = WriteFileAtomically(Path("a"), {"x"});
    umask(before);
    ASSERT_TRUE(written.ok()) << written;
    struct stat info;
    ASSERT_EQ(stat(Path("a").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, expected);
  }
}

TEST_F(FileTest, OpenForAppendingKeepsReplacesOrRejectsAnExistingFile) {
  const auto append = [&](ExistingFile existing) {
    const absl::StatusOr<int> fd = OpenForAppending(Path("a"), {.existing = existing});
    if (!fd.ok()) return fd.status();
    const absl::Status status = AppendTo(*fd, Path("a"), "line\n");
    close(*fd);
    return status;
  };
  EXPECT_TRUE(append(ExistingFile::kRefuse).ok());
  EXPECT_THAT(append(ExistingFile::kRefuse),
              IsError(absl::StatusCode::kAlreadyExists, Path("a"), "File exists"));
  EXPECT_TRUE(append(ExistingFile::kAppend).ok());
  EXPECT_EQ(Contents(Path("a")), "line\nline\n");
  EXPECT_TRUE(append(ExistingFile::kReplace).ok());
  EXPECT_EQ(Contents(Path("a")), "line\n");
}

TEST_F(FileTest, OpenForAppendingAcceptsOnlyRegularFiles) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  ASSERT_EQ(mkdir(Path("folder").c_str(), 0700), 0);
  for (const std::string& path : {Path("pipe"), std::string("/dev/null"), Path("folder")}) {
    EXPECT_THAT(OpenForAppending(path).status(),
                IsError(absl::StatusCode::kFailedPrecondition, path));
  }
  const int reader = open(Path("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  EXPECT_THAT(OpenForAppending(Path("pipe")).status(),
              IsError(absl::StatusCode::kFailedPrecondition, Path("pipe"), "got a pipe"));
  close(reader);
  EXPECT_THAT(OpenForAppending(Path("pipe")).status(),
              IsError(absl::StatusCode::kFailedPrecondition, Path("pipe"), "got a pipe"));
}

TEST_F(FileTest, OpenForAppendingFollowsLinksOnlyIfAllowed) {
  std::ofstream(Path("a")) << "old\n";
  ASSERT_EQ(symlink(Path("a").c_str(), Path("link").c_str()), 0);
  const absl::Status refused = OpenForAppending(Path("link")).status();
  EXPECT_THAT(refused,
              IsError(absl::StatusCode::kFailedPrecondition, Path("link"), "got a symbolic link"));
  const absl::StatusOr<int> followed =
      OpenForAppending(Path("link"), {.links = InputFile::Links::kFollow});
  ASSERT_TRUE(followed.ok()) << followed.status();
  close(*followed);
}

TEST_F(FileTest, LineBeyondTheFileSizeLimitIsAResourceErrorThatNamesTheLimit) {
  signal(SIGXFSZ, SIG_IGN);
  const absl::StatusOr<int> fd = OpenForAppending(Path("a"));
  ASSERT_TRUE(fd.ok()) << fd.status();
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = before;
  small.rlim_cur = 4;
  setrlimit(RLIMIT_FSIZE, &small);
  const absl::Status status = AppendTo(*fd, Path("a"), "longer\n");
  setrlimit(RLIMIT_FSIZE, &before);
  close(*fd);
  EXPECT_THAT(status,
              IsError(absl::StatusCode::kResourceExhausted, "a: cannot write", "ulimit -f"));
}

}  // namespace
}  // namespace mirrorflow
