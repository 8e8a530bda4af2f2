// SPDX-License-Identifier: Apache-2.0
//
// Counts what an in-process collective allocates. A program of its own, because the counter sees
// the whole process.
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "distribute/collective/in_process.h"
#include "gtest/gtest.h"
#include "tools/hot_path_counter.h"

namespace mirrorflow {
namespace {

constexpr int kRanks = 3;
constexpr int64_t kCount = 10000;

// Runs one collective of each kind, several times, between two barriers of which neither counts.
void RunAll(Communicator& communicator, float* memory, absl::Span<const int64_t> counts,
            int64_t* counted) {
  const Collective barrier{.kind = CollectiveKind::kBarrier, .name = "barrier"};
  ASSERT_EQ(communicator.Run(barrier), absl::OkStatus());
  const int64_t before = CountHotPath().allocations;
  bool ok = true;
  for (int i = 0; i < 100; ++i) {
    for (const CollectiveKind kind :
         {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter, CollectiveKind::kAllGather,
          CollectiveKind::kBroadcast, CollectiveKind::kBarrier}) {
      Collective collective{.kind = kind, .dtype = DT_FLOAT};
      collective.in = memory;
      collective.out = kind == CollectiveKind::kAllReduce ? memory : memory + kCount;
      collective.count = kCount;
      collective.counts = counts;
      collective.name = "a name that is too long to be kept within a string object itself";
      ok = communicator.Run(collective).ok() && ok;
    }
  }
  *counted = CountHotPath().allocations - before;
  EXPECT_TRUE(ok);
  ASSERT_EQ(communicator.Run(barrier), absl::OkStatus());
}

TEST(InProcessAllocations, CollectivesThatSucceedAllocateNothing) {
  auto ranks = CreateInProcessCommunicators(kRanks).value();
  const std::vector<int64_t> counts = {kCount / 2, 0, kCount / 2};
  std::vector<std::vector<float>> memory(kRanks, std::vector<float>(2 * kCount));
  std::vector<int64_t> counted(kRanks, -1);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back(
        [&, rank] { RunAll(*ranks[rank], memory[rank].data(), counts, &counted[rank]); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counted, std::vector<int64_t>(kRanks, 0));
}

TEST(InProcessAllocations, AreSeenByThisTest) {
  const int64_t before = CountHotPath().allocations;
  auto ranks = CreateInProcessCommunicators(1).value();
  EXPECT_GT(CountHotPath().allocations, before);
}

}  // namespace
}  // namespace mirrorflow
