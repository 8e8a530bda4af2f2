// SPDX-License-Identifier: Apache-2.0
#include "train/data/prefetch.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

// Lets the test observe and delay a CountingSource.
struct Control {
  std::mutex mu;
  std::condition_variable changed;
  int made = 0;          // completed calls to Next()
  int read = 0;          // batches that the test has requested from the prefetcher
  int most_ahead = 0;    // maximum of `made` - `read`
  int allowed = 10'000;  // calls to Next() that may start
  bool destroyed = false;

  void WaitUntilMade(int n) {
    std::unique_lock<std::mutex> lock(mu);
    changed.wait(lock, [&] { return made >= n; });
  }
};

// Yields the batches [0], [1], …, and then ends or returns an error.
class CountingSource final : public BatchSource {
 public:
  CountingSource(Control& control, int batches, absl::Status at_end)
      : control_(control), batches_(batches), at_end_(std::move(at_end)) {}
  ~CountingSource() override {
    std::lock_guard<std::mutex> lock(control_.mu);
    control_.destroyed = true;
  }

  absl::StatusOr<bool> Next(SourceBatch* batch) override {
    std::unique_lock<std::mutex> lock(control_.mu);
    control_.changed.wait(lock, [&] { return control_.made < control_.allowed; });
    const int i = control_.made++;
    control_.most_ahead = std::max(control_.most_ahead, control_.made - control_.read);
    control_.changed.notify_all();
    if (i < batches_) {
      batch->components = {Tensor::Vector<int32_t>({i})};
      return true;
    }
    if (!at_end_.ok()) return at_end_;
    return false;
  }

 private:
  Control& control_;
  const int batches_;
  const absl::Status at_end_;
};

std::unique_ptr<BatchSource> Prefetched(Control& control, int batches, int depth,
                                        absl::Status at_end = absl::OkStatus()) {
  return Prefetch(std::make_unique<CountingSource>(control, batches, std::move(at_end)), depth);
}

TEST(PrefetchTest, KeepsOrderAndEndForEveryDepth) {
  for (int depth : {1, 2, 3, 100}) {
    Control control;
    const auto source = Prefetched(control, /*batches=*/50, depth);
    SourceBatch batch;
    for (int i = 0; i < 50; ++i) {
      ASSERT_EQ(*source->Next(&batch), true);
      ASSERT_EQ(batch.components.size(), 1u);
      EXPECT_EQ(batch.components[0].scalar<int32_t>(), i);
    }
    for (int again = 0; again < 3; ++again) {
      EXPECT_EQ(*source->Next(&batch), false);
      EXPECT_TRUE(batch.components.empty());
    }
  }
}

TEST(PrefetchTest, ErrorFollowsPrecedingBatchesAndPersists) {
  Control control;
  const auto source = Prefetched(control, 3, /*depth=*/8, absl::DataLossError("torn"));
  control.WaitUntilMade(4);  // the error occurs before the first batch is read
  SourceBatch batch;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(*source->Next(&batch), true);
  for (int again = 0; again < 3; ++again) {
    EXPECT_EQ(source->Next(&batch).status(), absl::DataLossError("torn"));
  }
}

TEST(PrefetchTest, OutOfMemoryOnThePrefetchThreadIsAnError) {
  class LargeSource final : public BatchSource {
    absl::StatusOr<bool> Next(SourceBatch*) override { throw std::bad_alloc(); }
  };
  const auto source = Prefetch(std::make_unique<LargeSource>(), /*depth=*/2);
  SourceBatch batch;
  EXPECT_THAT(source->Next(&batch).status(),
              IsError(absl::StatusCode::kResourceExhausted, "memory"));
}

// The reader waits until the ring is full before it takes each batch. If the thread could run too
// far ahead, it would have a thousand chances to do so, which `most_ahead` or an overwritten batch
// would reveal.
TEST(PrefetchTest, RunsAheadByExactlyItsDepth) {
  constexpr int kBatches = 1'000;
  for (int depth : {1, 3}) {
    Control control;
    const auto source = Prefetched(control, kBatches, depth);
    SourceBatch batch;
    for (int i = 0; i < kBatches; ++i) {
      control.WaitUntilMade(std::min(i + depth, kBatches));
      {
        std::lock_guard<std::mutex> lock(control.mu);
        ++control.read;
      }
      ASSERT_EQ(*source->Next(&batch), true);
      ASSERT_EQ(batch.components[0].scalar<int32_t>(), i);
    }
    std::lock_guard<std::mutex> lock(control.mu);
    EXPECT_EQ(control.most_ahead, depth);
  }
}

TEST(PrefetchTest, DestructorStopsThreadWaitingForRoom) {
  Control control;
  {
    const auto source = Prefetched(control, 1000, /*depth=*/2);
    control.WaitUntilMade(2);
  }
  EXPECT_TRUE(control.destroyed);
  EXPECT_EQ(control.made, 2);
}

TEST(PrefetchTest, DestructorStopsThreadInsideNext) {
  Control control;
  control.allowed = 1;
  auto source = Prefetched(control, 1000, /*depth=*/5);
  control.WaitUntilMade(1);
  // The thread is blocked in Next(), or is about to be, and is released while the destructor runs.
  std::thread destroyer([&] { source.reset(); });
  {
    std::lock_guard<std::mutex> lock(control.mu);
    control.allowed = 1000;
  }
  control.changed.notify_all();
  destroyer.join();
  EXPECT_TRUE(control.destroyed);
}

TEST(PrefetchTest, CanBeDestroyedImmediatelyOrAfterEnd) {
  for (int batches : {0, 1, 1000}) {
    Control control;
    Prefetched(control, batches, 2).reset();
    EXPECT_TRUE(control.destroyed);
  }
  Control control;
  auto source = Prefetched(control, 0, 2);
  SourceBatch batch;
  EXPECT_EQ(*source->Next(&batch), false);
  source.reset();
  EXPECT_TRUE(control.destroyed);
}

}  // namespace
}  // namespace mirrorflow
