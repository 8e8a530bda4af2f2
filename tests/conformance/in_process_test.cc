// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/in_process.h"

#include <cstdint>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/conformance/communicator_conformance.h"

namespace mirrorflow {
namespace {

const ConformanceCase kInProcess = {"InProcess", [](int world_size, absl::Duration timeout) {
                                      return CreateInProcessCommunicators(world_size,
                                                                          {.timeout = timeout});
                                    }};

INSTANTIATE_TEST_SUITE_P(, CommunicatorConformance, testing::ValuesIn(AtEveryWorldSize(kInProcess)),
                         ConformanceCaseName);
INSTANTIATE_TEST_SUITE_P(, CommunicatorAborts,
                         testing::ValuesIn(AtEveryWorldSizeAboveOne(kInProcess)),
                         ConformanceCaseName);
INSTANTIATE_TEST_SUITE_P(, CommunicatorFailures,
                         testing::ValuesIn(AtEveryWorldSizeAboveOne(kInProcess)),
                         ConformanceCaseName);

// Beyond the contract of all communicators.

TEST(InProcess, WorldSizeMustBePossible) {
  for (const int world_size : {-1, 0, 1 << 30}) {
    const absl::Status status = CreateInProcessCommunicators(world_size).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  }
}

TEST(InProcess, TimeoutMustBePositiveAndMayBeInfinite) {
  const absl::Status status =
      CreateInProcessCommunicators(1, {.timeout = absl::ZeroDuration()}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  auto pair = CreateInProcessCommunicators(2, {.timeout = absl::InfiniteDuration()}).value();
  const Collective barrier{.kind = CollectiveKind::kBarrier, .name = "b"};
  std::thread peer([&] { EXPECT_EQ(pair[1]->Run(barrier), absl::OkStatus()); });
  EXPECT_EQ(pair[0]->Run(barrier), absl::OkStatus());
  peer.join();
}

TEST(InProcess, DifferenceIsToldInFull) {
  auto pair = CreateInProcessCommunicators(2).value();
  float memory[2][100] = {};
  Collective a{.kind = CollectiveKind::kAllReduce, .dtype = DT_FLOAT, .name = "a"};
  a.in = a.out = memory[0];
  a.count = 10;
  Collective b = a;
  b.in = b.out = memory[1];
  b.count = 100;
  b.name = "b";
  ASSERT_EQ(pair[1]->Start(b, nullptr), absl::OkStatus());
  ASSERT_EQ(pair[0]->Start(a, nullptr), absl::OkStatus());
  EXPECT_EQ(pair[0]->Finish(a, nullptr),
            absl::InvalidArgumentError("collective 1 differs between ranks: rank 1 runs all-reduce "
                                       "'b' of 100 float (sum), rank 0 all-reduce 'a' of 10 float "
                                       "(sum)"));
}

TEST(InProcess, TimeoutIsToldInFull) {
  auto three = CreateInProcessCommunicators(3, {.timeout = absl::Milliseconds(1)}).value();
  const Collective barrier{.kind = CollectiveKind::kBarrier, .name = "b"};
  ASSERT_EQ(three[1]->Start(barrier, nullptr), absl::OkStatus());
  EXPECT_EQ(three[1]->Finish(barrier, nullptr),
            absl::DeadlineExceededError("barrier 'b', collective 1: rank 1 timed out after 1ms; "
                                        "expected 3 ranks, not started by rank 0, 2"));
}

// Looks at what another thread is about to write, to know that it has begun.
__attribute__((no_sanitize("thread"))) int32_t Peek(const int32_t* element) {
  return *const_cast<const volatile int32_t*>(element);
}

// Who knows that its collective went well may act on it, so the others must not hear otherwise. One
// rank has all the work here: the others wait for it, and the abort comes while it is at it.
TEST(InProcess, CollectiveSucceedsOnAllRanksOrOnNoneWhenAborted) {
  constexpr int kRanks = 3;
  constexpr int64_t kCount = 4 << 20;
  const std::vector<int64_t> counts = {0, 0, kCount};
  const std::vector<int32_t> in(kCount, 1);
  std::vector<int32_t> out(kCount);
  for (int round = 0; round < 15; ++round) {
    out[0] = 0;
    auto ranks = CreateInProcessCommunicators(kRanks).value();
    std::vector<absl::Status> results(kRanks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        Collective collective{.kind = CollectiveKind::kReduceScatter, .dtype = DT_INT32};
        collective.in = in.data();
        collective.out = out.data();
        collective.counts = counts;
        results[rank] = ranks[rank]->Run(collective);
      });
    }
    while (Peek(&out[0]) == 0) std::this_thread::yield();
    ranks[0]->Abort(absl::CancelledError("no more"));
    for (std::thread& thread : threads) thread.join();
    for (int rank = 1; rank < kRanks; ++rank) {
      EXPECT_EQ(results[rank], results[0]) << "on rank " << rank;
    }
  }
}

// Adds the reduction, and the element's number, to the variable; counts the elements.
class AddToVariable final : public ReducedUpdate {
 public:
  explicit AddToVariable(float* variable) : variable_(variable) {}
  void Run(int64_t first, const void* reduced, int64_t count) const override {
    const float* values = static_cast<const float*>(reduced);
    for (int64_t i = 0; i < count; ++i) {
      variable_[first + i] += values[i] + static_cast<float>(first + i);
    }
    updated += count;
  }
  mutable int64_t updated = 0;

 private:
  float* const variable_;
};

TEST(InProcess, UpdateIsDoneOnceForEachElementAndSeenByAll) {
  for (const int world_size : {1, 2, 3, 5}) {
    for (const int64_t count : {0, 1, 17, 4096, 50'001}) {
      SCOPED_TRACE(absl::StrCat(count, " elements, ", world_size, " ranks"));
      auto ranks = CreateInProcessCommunicators(world_size).value();
      std::vector<std::vector<float>> gradients(world_size), first(world_size), second(world_size);
      std::vector<AddToVariable> updates;
      std::vector<std::thread> threads;
      for (int rank = 0; rank < world_size; ++rank) {
        gradients[rank].assign(count, static_cast<float>(rank + 1));
        first[rank].assign(count, 10);
        second[rank].assign(count, 20);  // named, and never written
        updates.emplace_back(first[rank].data());
      }
      for (int rank = 0; rank < world_size; ++rank) {
        threads.emplace_back([&, rank] {
          std::byte* const variables[] = {reinterpret_cast<std::byte*>(first[rank].data()),
                                          reinterpret_cast<std::byte*>(second[rank].data())};
          Collective update{.kind = CollectiveKind::kUpdate, .count = count, .name = "u"};
          update.in = gradients[rank].data();
          update.variables = variables;
          update.update = &updates[rank];
          for (int round = 0; round < 2; ++round) {
            EXPECT_EQ(ranks[rank]->Run(update), absl::OkStatus());
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
      int64_t updated = 0;
      for (int rank = 0; rank < world_size; ++rank) {
        updated += updates[rank].updated;
        EXPECT_EQ(first[rank], first[0]);
        EXPECT_EQ(second[rank], std::vector<float>(count, 20));
      }
      EXPECT_EQ(updated, 2 * count);
      const auto sum = static_cast<float>(world_size * (world_size + 1) / 2);
      for (int64_t i = 0; i < count; ++i) {
        ASSERT_EQ(first[0][i], 10 + 2 * (sum + static_cast<float>(i))) << "element " << i;
      }
    }
  }
}

// Adds rows of the product of two matrices of all ranks to the variable, and counts them.
class AddProduct final : public ProductUpdate {
 public:
  static constexpr int64_t kColumns = 3;
  AddProduct(int64_t rows, float* variable) : rows_(rows), variable_(variable) {}
  void Run(absl::Span<const ProductRows> parts, int64_t first, int64_t last) const override {
    for (const ProductRows& part : parts) {
      const float *a = static_cast<const float*>(part.a), *b = static_cast<const float*>(part.b);
      for (int64_t k = 0; k < part.count; ++k, a += rows_, b += kColumns) {
        for (int64_t i = first; i < last; ++i) {
          for (int64_t j = 0; j < kColumns; ++j) variable_[i * kColumns + j] += a[i] * b[j];
        }
      }
    }
    updated += last - first;
  }
  mutable int64_t updated = 0;

 private:
  const int64_t rows_;
  float* const variable_;
};

TEST(InProcess, UpdateByProductSeesTheRowsOfAllAndIsSeenByAll) {
  for (const int world_size : {1, 2, 3, 5}) {
    for (const int64_t rows : {1, 4, 50}) {
      SCOPED_TRACE(absl::StrCat(rows, " rows, ", world_size, " ranks"));
      auto ranks = CreateInProcessCommunicators(world_size).value();
      std::vector<int64_t> counts;  // of examples: the first rank has none
      for (int rank = 0; rank < world_size; ++rank) counts.push_back(world_size > 1 ? rank : 2);
      std::vector<std::vector<float>> left(world_size), right(world_size), variable(world_size);
      std::vector<AddProduct> updates;
      for (int rank = 0; rank < world_size; ++rank) {
        for (int64_t i = 0; i < counts[rank] * rows; ++i) left[rank].push_back(rank + i % 7);
        for (int64_t i = 0; i < counts[rank] * AddProduct::kColumns; ++i) {
          right[rank].push_back(static_cast<float>(i % 5));
        }
        variable[rank].assign(rows * AddProduct::kColumns, 10);
        updates.emplace_back(rows, variable[rank].data());
      }
      std::vector<float> want = variable[0];
      const AddProduct alone(rows, want.data());
      for (int rank = 0; rank < world_size; ++rank) {
        const ProductRows part = {left[rank].data(), right[rank].data(), counts[rank]};
        for (int round = 0; round < 2; ++round) alone.Run({&part, 1}, 0, rows);
      }
      std::vector<std::thread> threads;
      for (int rank = 0; rank < world_size; ++rank) {
        threads.emplace_back([&, rank] {
          std::byte* const variables[] = {reinterpret_cast<std::byte*>(variable[rank].data())};
          Collective update{.kind = CollectiveKind::kUpdateByProduct, .name = "u"};
          update.rows = rows;
          update.row_bytes = AddProduct::kColumns * static_cast<int64_t>(sizeof(float));
          update.counts = counts;
          update.in = left[rank].data();
          update.right = right[rank].data();
          update.variables = variables;
          update.product_update = &updates[rank];
          for (int round = 0; round < 2; ++round) {
            EXPECT_EQ(ranks[rank]->Run(update), absl::OkStatus());
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
      int64_t updated = 0;
      for (int rank = 0; rank < world_size; ++rank) {
        updated += updates[rank].updated;
        EXPECT_EQ(variable[rank], want) << "on rank " << rank;
      }
      EXPECT_EQ(updated, 2 * rows);
    }
  }
}

TEST(InProcess, UpdateWithoutItsUpdateIsAnError) {
  const float value = 1;
  const std::vector<int64_t> counts = {1};
  const AddToVariable sum(nullptr);
  const AddProduct product(1, nullptr);
  for (const CollectiveKind kind : {CollectiveKind::kUpdate, CollectiveKind::kUpdateByProduct}) {
    auto one = CreateInProcessCommunicators(1).value();
    Collective update{.kind = kind, .count = 1, .name = "u"};
    update.counts = counts;
    update.in = update.right = &value;
    // That of the other kind is none.
    if (kind == CollectiveKind::kUpdate) {
      update.product_update = &product;
    } else {
      update.update = &sum;
    }
    const absl::Status status = one[0]->Run(update);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  }
}

TEST(InProcess, RankThatLeavesEndsTheOthers) {
  auto pair = CreateInProcessCommunicators(2).value();
  const Collective barrier{.kind = CollectiveKind::kBarrier, .name = "b"};
  ASSERT_EQ(pair[0]->Start(barrier, nullptr), absl::OkStatus());
  pair[1].reset();
  EXPECT_EQ(pair[0]->Finish(barrier, nullptr),
            absl::AbortedError("rank 1 has left its communicator"));
}

TEST(InProcess, WhatIsNotTheFirstInFlightCannotBeFinished) {
  const Collective a{.kind = CollectiveKind::kBarrier, .name = "a"};
  const Collective b{.kind = CollectiveKind::kBarrier, .name = "b"};
  for (const bool start : {false, true}) {
    auto one = CreateInProcessCommunicators(1).value();
    if (start) {
      ASSERT_EQ(one[0]->Start(a, nullptr), absl::OkStatus());
      ASSERT_EQ(one[0]->Start(b, nullptr), absl::OkStatus());
    }
    const absl::Status status = one[0]->Finish(b, nullptr);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_EQ(one[0]->Run(a), status);
  }
}

TEST(InProcess, SplitNeedsAllInFlightToBeFinished) {
  auto one = CreateInProcessCommunicators(1).value();
  ASSERT_EQ(one[0]->Start({.kind = CollectiveKind::kBarrier, .name = "a"}, nullptr),
            absl::OkStatus());
  EXPECT_EQ(one[0]->Split(0, 0).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(InProcess, PartOfASplitOutlivesItsParent) {
  auto one = CreateInProcessCommunicators(1).value();
  const auto part = one[0]->Split(0, 0).value();
  one.clear();
  EXPECT_EQ(part->Run({.kind = CollectiveKind::kBarrier, .name = "a"}), absl::OkStatus());
}

}  // namespace
}  // namespace mirrorflow
