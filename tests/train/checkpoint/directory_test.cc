// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/directory.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CheckpointDirectoryTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(path_); }

  // A checkpoint whose only file has this text.
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

TEST_F(CheckpointDirectoryTest, SecondProcessLearnsWhoUsesIt) {
  const auto directory = CheckpointDirectory::Open(path_);
  ASSERT_TRUE(directory.ok()) << directory.status();
  const absl::Status second = CheckpointDirectory::Open(path_).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(second.message()),
              HasSubstr(absl::StrCat("in use by process ", getpid())));
}

TEST_F(CheckpointDirectoryTest, DeadProcessLeavesItFree) {
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

TEST_F(CheckpointDirectoryTest, NextOwnerWaitsAndNamesThePreviousOne) {
  for (const bool has_no_flock : {false, true}) {
    SetUp();
    const DirectoryLockOptions short_lease = {.timeout = absl::Seconds(20),
                                              .report_interval = absl::Milliseconds(50),
                                              .renewal = absl::Milliseconds(20),
                                              .lease = absl::Seconds(20),
                                              .has_no_flock = has_no_flock};
    auto first = CheckpointDirectory::Open(path_, short_lease);
    ASSERT_TRUE(first.ok()) << first.status();
    absl::Notification logged;
    std::string line;
    DirectoryLockOptions waits = short_lease;
    waits.log = [&](absl::string_view text) {
      if (logged.HasBeenNotified()) return;
      line = std::string(text);
      logged.Notify();
    };
    std::thread second([&] {
      const auto opened = CheckpointDirectory::Open(path_, waits);
      EXPECT_TRUE(opened.ok()) << opened.status();
    });
    logged.WaitForNotification();
    EXPECT_THAT(line, HasSubstr(absl::StrCat("in use by process ", getpid())));
    first->reset();
    second.join();
  }
}

// The lease of a network file system expires while a host is paused, or an operator removes the
// file. The process that comes back must not touch what the next owner has saved.
TEST_F(CheckpointDirectoryTest, OwnerThatWasReplacedChangesNothing) {
  for (const bool has_no_flock : {false, true}) {
    SetUp();
    const DirectoryLockOptions no_renewal = {.timeout = absl::Seconds(20),
                                             .renewal = absl::Hours(1),
                                             .lease = absl::Milliseconds(300),
                                             .has_no_flock = has_no_flock};
    const auto old = CheckpointDirectory::Open(path_, no_renewal);
    ASSERT_TRUE(old.ok()) << old.status();
    ASSERT_EQ(Save(**old, 100, "old"), absl::OkStatus());
    ASSERT_EQ(Save(**old, 200, "old"), absl::OkStatus());
    if (!has_no_flock) std::filesystem::remove(path_ + "/lock");
    auto next = CheckpointDirectory::Open(path_, no_renewal);
    ASSERT_TRUE(next.ok()) << next.status();
    ASSERT_EQ((*next)->Abandon(200), absl::OkStatus());
    for (const int64_t step : {900, 1000}) {
      ASSERT_EQ(Save(**next, step, "new"), absl::OkStatus());
      ASSERT_EQ((*next)->RemoveObsolete(step, 2), absl::OkStatus());
    }
    EXPECT_EQ(Save(**old, 300, "old").code(), absl::StatusCode::kAborted);
    EXPECT_EQ(Save(**old, 1000, "old").code(), absl::StatusCode::kAborted);
    EXPECT_EQ((*old)->RemoveObsolete(200, 2), absl::OkStatus()) << "there is nothing to remove";
    EXPECT_EQ((*old)->RemoveObsolete(2000, 1).code(), absl::StatusCode::kAborted);
    EXPECT_THAT(*ListCheckpoints(path_), ElementsAre(900, 1000));
    EXPECT_EQ(TextOf(1000), "new");
    EXPECT_EQ(Save(**next, 1100, "new"), absl::OkStatus());
    next->reset();  // the old owner does not get it back
    EXPECT_EQ(Save(**old, 1200, "old").code(), absl::StatusCode::kAborted);
  }
}

TEST_F(CheckpointDirectoryTest, OwnerWhoseLockWasRemovedTakesItAgain) {
  for (const bool has_no_flock : {false, true}) {
    SetUp();
    const DirectoryLockOptions options = {.renewal = absl::Hours(1), .has_no_flock = has_no_flock};
    const auto owner = CheckpointDirectory::Open(path_, options);
    ASSERT_TRUE(owner.ok()) << owner.status();
    std::filesystem::remove(path_ + "/lock");
    EXPECT_EQ(Save(**owner, 100, "saved"), absl::OkStatus());
    EXPECT_TRUE(absl::IsDeadlineExceeded(CheckpointDirectory::Open(path_, options).status()));
    EXPECT_EQ(Save(**owner, 200, "saved"), absl::OkStatus());
  }
}

TEST_F(CheckpointDirectoryTest, FailedSaveLeavesNothing) {
  const auto directory = CheckpointDirectory::Open(path_);
  ASSERT_TRUE(directory.ok()) << directory.status();
  ASSERT_EQ(Save(**directory, 1, "old"), absl::OkStatus());
  const absl::Status failed = (*directory)->Commit(1, [](const std::string& path) {
    std::ofstream(path + "/file") << "new";
    return absl::ResourceExhaustedError("full");
  });
  EXPECT_EQ(failed.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(TextOf(1), "old");
  EXPECT_THAT(Names(), ElementsAre("lock", "step-000000001"));
}

TEST_F(CheckpointDirectoryTest, SaveReplacesACheckpointOfTheSameStep) {
  const auto directory = CheckpointDirectory::Open(path_);
  ASSERT_TRUE(directory.ok()) << directory.status();
  ASSERT_EQ(Save(**directory, 1, "old"), absl::OkStatus());
  ASSERT_EQ(Save(**directory, 1, "new"), absl::OkStatus());
  EXPECT_EQ(TextOf(1), "new");
  EXPECT_THAT(Names(), ElementsAre("lock", "step-000000001"));
}

TEST_F(CheckpointDirectoryTest, KeepsTheNewestUpToTheStep) {
  const auto directory = CheckpointDirectory::Open(path_);
  ASSERT_TRUE(directory.ok()) << directory.status();
  for (const int64_t step : {1, 2, 3, 4, 9}) {
    ASSERT_EQ(Save(**directory, step, "x"), absl::OkStatus());
  }
  ASSERT_EQ((*directory)->RemoveObsolete(4, 2), absl::OkStatus());
  EXPECT_THAT(*ListCheckpoints(path_), ElementsAre(3, 4, 9)) << "9 belongs to a newer job";
  ASSERT_EQ((*directory)->RemoveObsolete(4, 5), absl::OkStatus());
  EXPECT_THAT(*ListCheckpoints(path_), ElementsAre(3, 4, 9));
}

TEST_F(CheckpointDirectoryTest, AbandonedCheckpointsGoFirstAndDoNotCount) {
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
  ASSERT_TRUE(CheckpointDirectory::Open(path_).ok());
  EXPECT_THAT(Names(), ElementsAre(".other.tmp", "lock"));
}

TEST_F(CheckpointDirectoryTest, FileInItsPlaceIsError) {
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path());
  std::ofstream(path_) << "a file";
  EXPECT_FALSE(CheckpointDirectory::Open(path_).ok());
  EXPECT_FALSE(ListCheckpoints(path_).ok());
}

}  // namespace
}  // namespace mirrorflow
