// SPDX-License-Identifier: Apache-2.0
//
// Counts the allocations that a team's collectives make. This test is a separate program because
// the counter covers the whole process.
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "distribute/collective/team_communicator.h"
#include "gtest/gtest.h"
#include "tools/bench/hot_path_counter.h"

namespace mirrorflow {
namespace {

constexpr int kRanks = 3;
constexpr int64_t kCount = 10000;

// Runs one collective of each kind 100 times between two barriers. The barriers are not counted.
void RunAll(Communicator& communicator, float* memory, absl::Span<const int64_t> counts,
            int64_t* counted) {
  const Collective barrier{.operation = Barrier{}, .name = "barrier"};
  ASSERT_EQ(communicator.Run(barrier), absl::OkStatus());
  const int64_t before = CountHotPath().allocations;
  bool ok = true;
  for (int i = 0; i < 100; ++i) {
    for (const decltype(Collective::operation)& operation :
         std::initializer_list<decltype(Collective::operation)>{
             AllReduce{Reduction::kSum, kCount}, ReduceScatter{Reduction::kSum, counts},
             AllGather{counts}, Broadcast{.count = kCount}, Barrier{}}) {
      const bool in_place = std::holds_alternative<AllReduce>(operation);
      const Collective collective{
          .operation = operation,
          .in = memory,
          .out = in_place ? memory : memory + kCount,
          .name = "a name that is too long for the buffer inside a std::string"};
      ok = communicator.Run(collective).ok() && ok;
    }
  }
  *counted = CountHotPath().allocations - before;
  EXPECT_TRUE(ok);
  ASSERT_EQ(communicator.Run(barrier), absl::OkStatus());
}

TEST(TeamAllocationsTest, SuccessfulCollectivesAllocateNothing) {
  auto ranks = CreateTeamCommunicators(kRanks).value();
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

TEST(TeamAllocationsTest, CounterSeesAllocationsOfCreation) {
  const int64_t before = CountHotPath().allocations;
  auto ranks = CreateTeamCommunicators(1).value();
  EXPECT_GT(CountHotPath().allocations, before);
}

}  // namespace
}  // namespace mirrorflow
