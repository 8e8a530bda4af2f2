// SPDX-License-Identifier: Apache-2.0
//
// Tests the flags that limit how long a program waits for checkpoints.
#include "tools/flags/checkpoint_flags.h"

#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "framework/core/monotonic_time.h"
#include "framework/workers/connection.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/forwarding_worker_group.h"
#include "tests/support/test_workers.h"

ABSL_DECLARE_FLAG(std::string, checkpoint_dir);
ABSL_DECLARE_FLAG(absl::Duration, connect_timeout);
ABSL_DECLARE_FLAG(absl::Duration, prepare_timeout);

namespace {
std::function<void()> before_flock;
}  // namespace

// Replaces the C library's flock.
extern "C" int flock(int fd, int operation) noexcept {
  if (before_flock) before_flock();
  return static_cast<int>(syscall(SYS_flock, fd, operation));
}

namespace mirrorflow {
namespace {

// Notifies when this worker waits for worker 0 to open the directory.
class WatchedGroup final : public ForwardingWorkerGroup {
 public:
  WatchedGroup(WorkerGroup& group, absl::Notification* waits)
      : ForwardingWorkerGroup(group), waits_(waits) {}

  absl::StatusOr<std::string> Get(absl::string_view key, MonotonicTime deadline) override {
    if (key == "checkpoint exchange 0") waits_->Notify();
    return ForwardingWorkerGroup::Get(key, deadline);
  }

 private:
  absl::Notification* const waits_;
};

class CheckpointFlagsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(directory_);
    absl::SetFlag(&FLAGS_checkpoint_dir, directory_);
  }
  void TearDown() override { before_flock = nullptr; }

  const std::string directory_ = TemporaryPath("flags");
  const Graph graph_;
};

TEST_F(CheckpointFlagsTest, OtherWorkersWaitForWorker0UntilPrepareTimeout) {
  absl::SetFlag(&FLAGS_prepare_timeout, absl::Hours(2));
  absl::Notification waits;
  const auto workers = TestWorkers::Create(
      [&](int) -> const Graph& { return graph_; },
      {.change = [&](int worker, SessionOptions*, SessionBackend* backend) {
        if (worker == 0) return;
        backend->workers = std::make_shared<WatchedGroup>(*backend->workers, &waits);
      }});
  ASSERT_TRUE(workers.ok()) << workers.status();
  const auto open = [&](int worker) {
    ExitCode code = kExitOk;
    return CheckpointsOfFlags((*workers)->session(worker), {}, &code).status();
  };
  std::thread worker_1([&] { EXPECT_EQ(open(1), absl::OkStatus()); });
  waits.WaitForNotification();
  MonotonicTime::AdvanceForTest(absl::Hours(1));
  // A call that times out also ends all other calls that are overdue.
  WorkerGroup& group = *(*workers)->session(0).connection().workers();
  const absl::Status never = group.Get("never put", MonotonicTime::Now()).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(never)) << never;
  EXPECT_EQ(open(0), absl::OkStatus());
  worker_1.join();
}

// Otherwise, every restart after a power loss would fail.
TEST_F(CheckpointFlagsTest, LockOfHostWithoutPowerIsTakenOverDespiteShortConnectTimeout) {
  absl::SetFlag(&FLAGS_connect_timeout, absl::Seconds(1));
  WriteTemporary("flags/lock", "process 1 on elsewhere since yesterday, id 0123456789abcdef\n");
  const auto workers = TestWorkers::Create([&](int) -> const Graph& { return graph_; },
                                           {.workers = 1, .replicas = 1});
  ASSERT_TRUE(workers.ok()) << workers.status();
  before_flock = [] { MonotonicTime::AdvanceForTest(absl::Seconds(10)); };
  ExitCode code = kExitOk;
  const auto checkpoints = CheckpointsOfFlags((*workers)->session(0), {}, &code);
  EXPECT_TRUE(checkpoints.ok()) << checkpoints.status();
}

}  // namespace
}  // namespace mirrorflow
