// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/core/monotonic_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/captured_log.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"
#include "train/checkpoint/directory_lock.h"

namespace {

// Which calls the simulated file system supports.
std::atomic<bool> has_flock = true;
std::atomic<bool> can_exchange = true;
std::function<void()> before_flock;

}  // namespace

// These replace the C library's functions, to simulate file systems that lack them.
extern "C" int flock(int fd, int operation) noexcept {
  if (before_flock) before_flock();
  if (has_flock) return static_cast<int>(syscall(SYS_flock, fd, operation));
  errno = ENOLCK;
  return -1;
}

extern "C" int renameat2(int from_fd, const char* from, int to_fd, const char* to,
                         unsigned flags) noexcept {
  if (can_exchange)
    return static_cast<int>(syscall(SYS_renameat2, from_fd, from, to_fd, to, flags));
  errno = EINVAL;
  return -1;
}

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Matches the error of a process that waited in vain for the directory.
auto IsInUse() { return IsError(absl::StatusCode::kDeadlineExceeded, "in use by"); }

// Prevents this process from opening files during the object's lifetime.
class NoMoreFiles {
 public:
  NoMoreFiles() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none = {0, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoMoreFiles() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_;
};

class CheckpointDirectoryTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(path_);
    has_flock = true;
    can_exchange = true;
    before_flock = nullptr;
  }

  std::string Lock() const {
    std::ifstream file(path_ + "/lock");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  // Saves a checkpoint whose only file contains `text`.
  static absl::Status Save(CheckpointDirectory& directory, int64_t step, const std::string& text) {
    return directory.Commit(step, [&](const std::string& path) {
      std::ofstream(path + "/file") << text;
      return absl::OkStatus();
    });
  }
  std::string TextOf(int64_t step) const {
    std::ifstream file(CheckpointPath(path_, step) + "/file");
    std::string text;
    file >> text;
    return text;
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  const std::string path_ = TemporaryPath("checkpoints/of/run");
};

TEST_F(CheckpointDirectoryTest, ListsCheckpointsInOrder) {
  EXPECT_THAT(*ListCheckpoints(path_), IsEmpty());
  const auto directory = CheckpointDirectory::Open(path_);
  ASSERT_TRUE(directory.ok()) << directory.status();
  for (const int64_t step : {20, 3, 1'000'000'000}) {
    ASSERT_EQ(Save(**directory, step, absl::StrCat(step)), absl::OkStatus());
  }
  for (const char* other :
       {"step-20", "step-0000000020", "step--00000001", "step-00000000x", "xstep-000000001"}) {
    std::filesystem::create_directory(absl::StrCat(path_, "/", other));
  }
  EXPECT_THAT(*ListCheckpoints(path_), ElementsAre(3, 20, 1'000'000'000));
  EXPECT_EQ(TextOf(20), "20");
}

TEST_F(CheckpointDirectoryTest, SecondProcessLearnsWhoUsesTheDirectory) {
  const auto directory = CheckpointDirectory::Open(path_);
  ASSERT_TRUE(directory.ok()) << directory.status();
  const absl::Status second = CheckpointDirectory::Open(path_).status();
  EXPECT_THAT(second, IsError(absl::StatusCode::kDeadlineExceeded, "in use by",
                              absl::StrCat("process ", getpid())));
}

TEST_F(CheckpointDirectoryTest, DirectoryIsFreeAfterItsOwnerDies) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto directory = CheckpointDirectory::Open(path_);
    kill(getpid(), directory.ok() ? SIGKILL : SIGABRT);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_TRUE(CheckpointDirectory::Open(path_).ok());
}

TEST_F(CheckpointDirectoryTest, NextOwnerWaitsAndLogsThePreviousOne) {
  for (const bool flock : {true, false}) {
    SetUp();
    has_flock = flock;
    const DirectoryLockOptions options = {.timeout = absl::Seconds(20),
                                          .report_interval = absl::Milliseconds(50)};
    auto first = CheckpointDirectory::Open(path_, options);
    ASSERT_TRUE(first.ok()) << first.status();
    const CapturedLog log;
    std::thread second([&] {
      const auto opened = CheckpointDirectory::Open(path_, options);
      EXPECT_TRUE(opened.ok()) << opened.status();
    });
    while (log.lines().empty()) absl::SleepFor(absl::Milliseconds(1));
    EXPECT_THAT(log.text(), HasSubstr(absl::StrCat("process ", getpid())));
    first->reset();
    second.join();
  }
}

// Either the owner or the next job may be unable to use flock, for example because NFS returns
// ENOLCK. Renewals are then the only sign that the owner is alive.
TEST_F(CheckpointDirectoryTest, RenewingOwnerKeepsTheDirectoryWithoutFlockOnEitherSide) {
  constexpr absl::Duration kLease = absl::Seconds(100);
  for (const bool owner_has_flock : {true, false}) {
    SCOPED_TRACE(owner_has_flock);
    SetUp();
    has_flock = owner_has_flock;
    auto owner =
        CheckpointDirectory::Open(path_, {.renewal = absl::Milliseconds(1), .lease = kLease});
    ASSERT_TRUE(owner.ok()) << owner.status();
    has_flock = !owner_has_flock;
    // The next job's attempts are almost half a lease apart.
    std::string last;
    before_flock = [&] {
      for (int i = 0; i < 5000 && Lock() == last; ++i) absl::SleepFor(absl::Milliseconds(1));
      last = Lock();
      MonotonicTime::AdvanceForTest(0.4 * kLease);
    };
    const DirectoryLockOptions waits = {.timeout = 2 * kLease, .lease = kLease};
    EXPECT_THAT(CheckpointDirectory::Open(path_, waits).status(), IsInUse());
    EXPECT_EQ(Save(**owner, 1, "x"), absl::OkStatus());

    // Simulates a power loss on the owner's host.
    before_flock = nullptr;
    const std::string text = Lock();
    owner->reset();
    std::ofstream(path_ + "/lock") << text;
    EXPECT_THAT(CheckpointDirectory::Open(path_).status(), IsInUse());
    before_flock = [&] { MonotonicTime::AdvanceForTest(0.4 * kLease); };
    const MonotonicTime begin = MonotonicTime::Now();
    EXPECT_EQ(CheckpointDirectory::Open(path_, waits).status(), absl::OkStatus());
    EXPECT_GE(MonotonicTime::Now() - begin, kLease);
  }
}

// An NFS server does not release the lock of a host that has lost power.
TEST_F(CheckpointDirectoryTest, FlockHeldByAnotherHostEndsWithTheLease) {
  std::filesystem::create_directories(path_);
  std::ofstream(path_ + "/lock") << "process 1 on elsewhere\nflock on boot 1, device 1\n";
  const int fd = open((path_ + "/lock").c_str(), O_RDONLY);
  ASSERT_EQ(flock(fd, LOCK_EX | LOCK_NB), 0);
  const absl::Status early = CheckpointDirectory::Open(path_).status();
  EXPECT_THAT(early, IsError(absl::StatusCode::kDeadlineExceeded, "process 1 on elsewhere"));
  before_flock = [] { MonotonicTime::AdvanceForTest(absl::Seconds(10)); };
  EXPECT_EQ(CheckpointDirectory::Open(path_, {.timeout = absl::Minutes(1)}).status(),
            absl::OkStatus());
  close(fd);
}

// A corrupt lock file is treated as the lock of an owner that never renews its lease. Only its
// first bytes are read.
TEST_F(CheckpointDirectoryTest, OnlyTheStartOfACorruptLockFileIsRead) {
  for (const char c : {'\x1b', '\0', '\n'}) {
    SetUp();
    std::filesystem::create_directories(path_);
    std::ofstream(path_ + "/lock") << std::string(1 << 20, c);
    const absl::Status early = CheckpointDirectory::Open(path_).status();
    EXPECT_THAT(early, IsInUse());
    EXPECT_EQ(early.message().find(c), absl::string_view::npos);
    int attempts = 0;
    before_flock = [&] {
      std::ofstream(path_ + "/lock") << std::string(500, c) << ++attempts;
      MonotonicTime::AdvanceForTest(absl::Milliseconds(300));
    };
    const DirectoryLockOptions waits = {.timeout = absl::Seconds(10), .lease = absl::Seconds(1)};
    EXPECT_EQ(CheckpointDirectory::Open(path_, waits).status(), absl::OkStatus());
  }
}

// The owner may be paused, or stopped in a debugger.
TEST_F(CheckpointDirectoryTest, OwnerOnTheSameHostKeepsTheDirectoryWithoutRenewals) {
  const auto owner = CheckpointDirectory::Open(path_, {.renewal = absl::Hours(1)});
  ASSERT_TRUE(owner.ok()) << owner.status();
  before_flock = [] { MonotonicTime::AdvanceForTest(absl::Seconds(10)); };
  EXPECT_THAT(CheckpointDirectory::Open(path_, {.timeout = absl::Minutes(1)}).status(), IsInUse());
}

// The cause may be a limit on open files, or a brief network failure.
TEST_F(CheckpointDirectoryTest, UnreadableLockFileDoesNotMeanThatTheOwnerIsLost) {
  has_flock = false;
  const auto owner = CheckpointDirectory::Open(path_);
  ASSERT_TRUE(owner.ok()) << owner.status();
  std::optional<NoMoreFiles> limit;
  before_flock = [&] { limit.emplace(); };
  const absl::Status second = CheckpointDirectory::Open(path_).status();
  limit.reset();
  before_flock = nullptr;
  EXPECT_THAT(second, IsInUse());

  const absl::Status failed = (*owner)->Commit(1, [&](const std::string&) {
    limit.emplace();
    return absl::OkStatus();
  });
  limit.reset();
  EXPECT_THAT(failed, IsError(absl::StatusCode::kResourceExhausted, "open files"));
  EXPECT_FALSE(IsLostDirectory(failed));
  EXPECT_EQ(Save(**owner, 2, "saved"), absl::OkStatus());
}

// While the owner's host is paused, the lease on a network file system may expire, or an operator
// may remove the lock file. When the owner resumes, it must not touch what the next owner has
// saved.
TEST_F(CheckpointDirectoryTest, ReplacedOwnerChangesNothing) {
  for (const bool flock : {true, false}) {
    SetUp();
    has_flock = flock;
    const DirectoryLockOptions no_renewal = {
        .timeout = absl::Seconds(20), .renewal = absl::Hours(1), .lease = absl::Milliseconds(300)};
    const auto old = CheckpointDirectory::Open(path_, no_renewal);
    ASSERT_TRUE(old.ok()) << old.status();
    ASSERT_EQ(Save(**old, 100, "old"), absl::OkStatus());
    ASSERT_EQ(Save(**old, 200, "old"), absl::OkStatus());
    if (flock) std::filesystem::remove(path_ + "/lock");
    auto next = CheckpointDirectory::Open(path_, no_renewal);
    ASSERT_TRUE(next.ok()) << next.status();
    ASSERT_EQ((*next)->Abandon(200), absl::OkStatus());
    for (const int64_t step : {900, 1000}) {
      ASSERT_EQ(Save(**next, step, "new"), absl::OkStatus());
      ASSERT_EQ((*next)->RemoveObsolete(step, 2), absl::OkStatus());
    }
    EXPECT_TRUE(IsLostDirectory(Save(**old, 300, "old")));
    EXPECT_TRUE(IsLostDirectory(Save(**old, 1000, "old")));
    EXPECT_EQ((*old)->RemoveObsolete(200, 2), absl::OkStatus()) << "nothing to remove";
    EXPECT_TRUE(IsLostDirectory((*old)->RemoveObsolete(2000, 1)));
    EXPECT_THAT(*ListCheckpoints(path_), ElementsAre(900, 1000));
    EXPECT_EQ(TextOf(1000), "new");
    EXPECT_EQ(Save(**next, 1100, "new"), absl::OkStatus());
    next->reset();  // must not make the old owner valid again
    EXPECT_TRUE(IsLostDirectory(Save(**old, 1200, "old")));
  }
}

// Renewals must not overwrite the new owner's lock file, even if the old owner has not noticed that
// it was replaced.
TEST_F(CheckpointDirectoryTest, ReplacedOwnerStopsRenewing) {
  const DirectoryLockOptions renews = {.renewal = absl::Milliseconds(1)};
  const auto old = CheckpointDirectory::Open(path_, renews);
  ASSERT_TRUE(old.ok()) << old.status();
  const std::string other = "process 1 on elsewhere\n";
  std::ofstream(path_ + "/other") << other;
  std::filesystem::rename(path_ + "/other", path_ + "/lock");
  EXPECT_TRUE(IsLostDirectory(Save(**old, 1, "x")));
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_EQ(Lock(), other);
}

TEST_F(CheckpointDirectoryTest, OwnerRetakesALockFileThatWasRemoved) {
  for (const bool flock : {true, false}) {
    SetUp();
    has_flock = flock;
    const DirectoryLockOptions options = {.renewal = absl::Hours(1)};
    const auto owner = CheckpointDirectory::Open(path_, options);
    ASSERT_TRUE(owner.ok()) << owner.status();
    std::filesystem::remove(path_ + "/lock");
    EXPECT_EQ(Save(**owner, 100, "saved"), absl::OkStatus());
    EXPECT_THAT(CheckpointDirectory::Open(path_, options).status(), IsInUse());
    EXPECT_EQ(Save(**owner, 200, "saved"), absl::OkStatus());
  }
}

TEST_F(CheckpointDirectoryTest, FailedSaveLeavesNoFiles) {
  const auto directory = CheckpointDirectory::Open(path_);
  ASSERT_TRUE(directory.ok()) << directory.status();
  ASSERT_EQ(Save(**directory, 1, "old"), absl::OkStatus());
  const absl::Status failed = (*directory)->Commit(1, [](const std::string& path) {
    std::ofstream(path + "/file") << "new";
    return absl::ResourceExhaustedError("full");
  });
  EXPECT_THAT(failed, IsError(absl::StatusCode::kResourceExhausted, "full"));
  EXPECT_EQ(TextOf(1), "old");
  EXPECT_THAT(Names(), ElementsAre("lock", "step-000000001"));
}

TEST_F(CheckpointDirectoryTest, SaveReplacesACheckpointOfTheSameStep) {
  for (const bool exchange : {true, false}) {
    SetUp();
    can_exchange = exchange;
    const auto directory = CheckpointDirectory::Open(path_);
    ASSERT_TRUE(directory.ok()) << directory.status();
    ASSERT_EQ(Save(**directory, 1, "old"), absl::OkStatus());
    ASSERT_EQ(Save(**directory, 1, "new"), absl::OkStatus());
    EXPECT_EQ(TextOf(1), "new");
    EXPECT_THAT(Names(), ElementsAre("lock", "step-000000001"));
  }
}

// Replacing a checkpoint takes two renames on NFS and FUSE.
TEST_F(CheckpointDirectoryTest, ReplacedCheckpointSurvivesACrashBetweenTwoRenames) {
  GTEST_FLAG_SET(death_test_style,
                 "threadsafe");  // reruns the test in a new process, with the failpoint
  setenv("MIRRORFLOW_FAILPOINTS", "checkpoint/replace=kill", 1);
  const auto replace = [&] {
    can_exchange = false;
    const auto directory = CheckpointDirectory::Open(path_);
    if (!directory.ok() || !Save(**directory, 1, "old").ok()) return;
    Save(**directory, 1, "new").IgnoreError();
  };
  EXPECT_EXIT(replace(), testing::KilledBySignal(SIGKILL), "");
  unsetenv("MIRRORFLOW_FAILPOINTS");
  EXPECT_THAT(*ListCheckpoints(path_), IsEmpty());
  ASSERT_TRUE(CheckpointDirectory::Open(path_).ok());
  EXPECT_EQ(TextOf(1), "old");
  EXPECT_THAT(Names(), ElementsAre("lock", "step-000000001"));
}

TEST_F(CheckpointDirectoryTest, KeepsTheNewestCheckpointsUpToTheStep) {
  const auto directory = CheckpointDirectory::Open(path_);
  ASSERT_TRUE(directory.ok()) << directory.status();
  for (const int64_t step : {1, 2, 3, 4, 9}) {
    ASSERT_EQ(Save(**directory, step, "x"), absl::OkStatus());
  }
  ASSERT_EQ((*directory)->RemoveObsolete(4, 2), absl::OkStatus());
  EXPECT_THAT(*ListCheckpoints(path_), ElementsAre(3, 4, 9))
      << "step 9 is later than the current step";
  ASSERT_EQ((*directory)->RemoveObsolete(4, 5), absl::OkStatus());
  EXPECT_THAT(*ListCheckpoints(path_), ElementsAre(3, 4, 9));
}

TEST_F(CheckpointDirectoryTest, AbandonedCheckpointsAreRemovedFirstAndDoNotCount) {
  const auto directory = CheckpointDirectory::Open(path_);
  ASSERT_TRUE(directory.ok()) << directory.status();
  for (const int64_t step : {80, 90, 100}) {
    ASSERT_EQ(Save(**directory, step, "x"), absl::OkStatus());
  }
  ASSERT_EQ((*directory)->Abandon(80), absl::OkStatus());
  for (const int64_t step : {95, 100}) {
    ASSERT_EQ(Save(**directory, step, "new"), absl::OkStatus());
    ASSERT_EQ((*directory)->RemoveObsolete(step, 2), absl::OkStatus());
  }
  EXPECT_THAT(*ListCheckpoints(path_), ElementsAre(95, 100));
  EXPECT_EQ(TextOf(100), "new");
}

TEST_F(CheckpointDirectoryTest, LeftoversAreRemovedAtTheNextStart) {
  ASSERT_TRUE(CheckpointDirectory::Open(path_).ok());
  std::filesystem::create_directories(path_ + "/.step-000000005.0123456789abcdef.tmp/inner");
  std::filesystem::create_directories(path_ + "/.other.tmp");
  std::ofstream(path_ + "/.lock.0123456789abcdef.tmp") << "process 1";
  // Step 5 was replaced, and the replacement of step 6 is missing.
  for (const int64_t step : {5, 6}) {
    const std::string old = absl::StrCat(path_, "/.step-00000000", step, ".0123456789abcdef.old");
    std::filesystem::create_directory(old);
    std::ofstream(old + "/file") << "old";
  }
  std::filesystem::create_directory(CheckpointPath(path_, 5));
  std::ofstream(CheckpointPath(path_, 5) + "/file") << "new";
  ASSERT_TRUE(CheckpointDirectory::Open(path_).ok());
  EXPECT_THAT(Names(), ElementsAre(".other.tmp", "lock", "step-000000005", "step-000000006"));
  EXPECT_EQ(TextOf(5), "new");
  EXPECT_EQ(TextOf(6), "old");
}

TEST_F(CheckpointDirectoryTest, FileInPlaceOfDirectoryIsRejected) {
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path());
  std::ofstream(path_) << "a file";
  EXPECT_THAT(CheckpointDirectory::Open(path_).status(),
              IsError(absl::StatusCode::kFailedPrecondition, path_, "Not a directory"));
  EXPECT_THAT(ListCheckpoints(path_).status(),
              IsError(absl::StatusCode::kFailedPrecondition, path_, "directory"));
}

}  // namespace
}  // namespace mirrorflow
