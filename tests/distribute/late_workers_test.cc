// SPDX-License-Identifier: Apache-2.0
//
// Tests workers that are alive but slow to create a session or to prepare a step. The tests advance
// the process's clock to check that the others wait for prepare_timeout, not connect_timeout.
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/forwarding_worker_group.h"
#include "tests/support/test_workers.h"
#include "train/optimizers/optimizers.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

// Calls `before` with the name of each all-gather, before this worker joins it.
class WatchedGroup final : public ForwardingWorkerGroup {
 public:
  WatchedGroup(WorkerGroup& group, std::function<void(absl::string_view name)> before)
      : ForwardingWorkerGroup(group), before_(std::move(before)) {}

  absl::StatusOr<std::vector<std::string>> AllGather(absl::string_view name, std::string value,
                                                     MonotonicTime deadline) override {
    before_(name);
    return ForwardingWorkerGroup::AllGather(name, std::move(value), deadline);
  }

 private:
  const std::function<void(absl::string_view name)> before_;
};

std::shared_ptr<std::byte> AllocateZeros(size_t bytes) {
  constexpr size_t kPage = 4096;
  const size_t size = (bytes + kPage - 1) / kPage * kPage;
  std::shared_ptr<std::byte> memory(static_cast<std::byte*>(std::aligned_alloc(kPage, size)),
                                    std::free);
  std::memset(memory.get(), 0, size);
  return memory;
}

class LateWorkersTest : public testing::Test {
 protected:
  LateWorkersTest() {
    const Scope root(&graph_);
    x_ = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 1});
    const Variable w = CreateVariable(root, "w", {1, 1}, initializers::Ones());
    loss_ = ops::Mean(root, ops::MatMul(root, x_, w.value), {0, 1});
    train_ = GradientDescent({.learning_rate = 0.1f}).Minimize(root, loss_);
  }

  // Makes worker 1 ten minutes late, while worker 0 is waiting for it.
  void ComeLate(WorkerGroup& worker_1) {
    worker_0_waits_.WaitForNotification();
    MonotonicTime::AdvanceForTest(absl::Minutes(10));
    // When a call times out, all other overdue calls also end.
    const absl::Status never = worker_1.Get("never put", MonotonicTime::Now()).status();
    EXPECT_TRUE(absl::IsDeadlineExceeded(never)) << never;
  }

  absl::StatusOr<std::unique_ptr<TestWorkers>> Start(
      const std::function<void(int worker, SessionBackend*)>& change) {
    TestWorkersOptions options;
    options.session.connect_timeout = absl::Seconds(10);
    options.change = [&](int worker, SessionOptions*, SessionBackend* backend) {
      change(worker, backend);
    };
    return TestWorkers::Create([&](int) -> const Graph& { return graph_; }, options);
  }

  Graph graph_;
  Output x_, loss_;
  Operation train_;
  absl::Notification worker_0_waits_;
};

TEST_F(LateWorkersTest, WorkerCanAllocateLate) {
  bool has_allocated = false;  // set by worker 0
  const auto workers = Start([&](int worker, SessionBackend* backend) {
    backend->share_memory = [&, worker](size_t bytes, absl::string_view, WorkerGroup& group,
                                        MonotonicTime) {
      if (worker == 0) has_allocated = true;
      if (worker == 1) ComeLate(group);
      return AllocateZeros(bytes);
    };
    if (worker == 1) return;
    backend->workers = std::make_shared<WatchedGroup>(*backend->workers, [&](absl::string_view) {
      if (has_allocated && !worker_0_waits_.HasBeenNotified()) worker_0_waits_.Notify();
    });
  });
  EXPECT_EQ(workers.status(), absl::OkStatus());
  EXPECT_TRUE(worker_0_waits_.HasBeenNotified());
}

TEST_F(LateWorkersTest, WorkerCanCompileLate) {
  const auto workers = Start([&](int worker, SessionBackend* backend) {
    backend->workers = std::make_shared<WatchedGroup>(
        *backend->workers, [&, worker, group = backend->workers](absl::string_view name) {
          if (name != "agreement/preparation 0") return;
          if (worker == 0) worker_0_waits_.Notify();
          if (worker == 1) ComeLate(*group);
        });
  });
  ASSERT_TRUE(workers.ok()) << workers.status();
  EXPECT_EQ((*workers)->OnAll([&](int w) -> absl::Status {
    MF_ASSIGN_OR_RETURN(Step step, (*workers)->session(w).Prepare({x_}, {loss_}, {train_}));
    return step.Run({Tensor::Of<float>({4, 1}, {1, 2, 3, 4})}).status();
  }),
            absl::OkStatus());
  EXPECT_TRUE(worker_0_waits_.HasBeenNotified());
}

}  // namespace
}  // namespace mirrorflow
