// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/cost_model.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/explain/divide_cores.h"

namespace mirrorflow {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;

constexpr int64_t kMiB = int64_t{1} << 20;

// Builds a plan of instructions that touch whole values, each in a separate region.
class PlanOf {
 public:
  int Kernel(const std::string& op, std::vector<int> reads, std::vector<int> writes,
             int64_t bytes = kMiB, int64_t flops = 0) {
    plan_.kernel_flops.push_back(flops);
    const int index = static_cast<int>(plan_.kernel_flops.size()) - 1;
    return Add({.kind = InstructionKind::kKernel, .index = index}, op, reads, writes, bytes);
  }
  // Adds the start and the finish of the next collective.
  int Start(int value) {
    plan_.collectives.push_back({});
    return Add({.kind = InstructionKind::kStart, .index = Last()}, "AllReduce", {value}, {value});
  }
  int Finish(int value) {
    return Add({.kind = InstructionKind::kFinish, .index = Last()}, "AllReduce", {value}, {value});
  }

  // Moves an instruction to another of the replica's threads.
  void RunOn(int instruction, int thread) {
    plan_.instructions[instruction].thread = static_cast<int16_t>(thread);
    plan_.num_threads = std::max(plan_.num_threads, thread + 1);
  }
  void Wait(int instruction, int other) { plan_.waits.push_back({instruction, other}); }

  // Sets how many bytes of `value` the instruction accesses.
  void Resize(int instruction, int value, int64_t bytes) {
    for (MemoryAccess& access : plan_.accesses[instruction]) {
      if (access.value == value) access.bytes = bytes;
    }
  }

  operator const Plan&() const { return plan_; }

 private:
  int32_t Last() const { return static_cast<int32_t>(plan_.collectives.size()) - 1; }
  int Add(Instruction instruction, const std::string& op, const std::vector<int>& reads,
          const std::vector<int>& writes, int64_t bytes = kMiB) {
    const int i = static_cast<int>(plan_.instructions.size());
    instruction.node = i;
    plan_.instructions.push_back(instruction);
    plan_.node_names.push_back("node" + std::to_string(i));
    plan_.node_ops.push_back(op);
    plan_.accesses.emplace_back();
    for (const int value : reads) plan_.accesses[i].push_back({{value, 0}, bytes, false, value});
    for (const int value : writes) plan_.accesses[i].push_back({{value, 0}, bytes, true, value});
    return i;
  }

  Plan plan_;
};

CostTable Caches() { return {.near_bytes = 2 * kMiB, .shared_bytes = 16 * kMiB}; }

TEST(DemandsOfTest, BytesComeFromCacheLevelOfLastUse) {
  PlanOf plan;
  plan.Kernel("Make", {}, {1});  // after 24 MiB, in the previous step
  plan.Kernel("Use", {1}, {});   // immediately
  plan.Kernel("Fill", {}, {2}, 6 * kMiB);
  plan.Kernel("Use", {1}, {});  // after 6 MiB
  plan.Kernel("Fill", {}, {3}, 24 * kMiB);
  const std::vector<Amounts> demands = DemandsOf(plan, Caches());
  EXPECT_THAT(demands[0], ElementsAre(1, 0, 0, 0, 0, kMiB, kMiB, kMiB));
  EXPECT_THAT(demands[1], ElementsAre(1, 0, kMiB, 0, 0, 0, 0, 0));
  EXPECT_THAT(demands[3], ElementsAre(1, 0, kMiB, kMiB, 0, 0, 0, 0));
}

TEST(DemandsOfTest, GatherReadsOnlyRowsThatItWrites) {
  for (const auto& [op, bytes] : std::vector<std::pair<std::string, int64_t>>{
           {"GatherV2", kMiB}, {"ResourceGather", kMiB}, {"GatherNd", kMiB}, {"Use", 24 * kMiB}}) {
    PlanOf plan;
    plan.Resize(plan.Kernel(op, {1}, {2}), 1, 24 * kMiB);
    EXPECT_EQ(DemandsOf(plan, Caches())[0][kReads], bytes) << op;
  }
}

TEST(DemandsOfTest, BytesBetweenTwoUsesCountOnce) {
  PlanOf plan;
  plan.Kernel("Use", {1}, {});
  for (int i = 0; i < 100; ++i) plan.Kernel("Use", {2}, {}, kMiB / 4);
  EXPECT_THAT(DemandsOf(plan, Caches())[0], ElementsAre(1, 0, kMiB, 0, 0, 0, 0, 0));
}

TEST(DemandsOfTest, InPlaceWriteAddsNoTraffic) {
  PlanOf plan;
  plan.Kernel("InPlace", {1}, {1}, kMiB / 2, /*flops=*/7);
  plan.Kernel("Copy", {1}, {2}, kMiB / 2);
  const std::vector<Amounts> demands = DemandsOf(plan, Caches());
  EXPECT_THAT(demands[0], ElementsAre(1, 7, kMiB / 2, 0, 0, 0, 0, 0));
  EXPECT_THAT(demands[1], ElementsAre(1, 0, kMiB / 2, 0, 0, kMiB / 2, 0, 0));
}

TEST(DemandsOfTest, CollectiveTouchesItsMemoryAtFinish) {
  PlanOf plan;
  plan.Start(1);
  plan.Finish(1);
  const std::vector<Amounts> demands = DemandsOf(plan, Caches());
  EXPECT_THAT(demands[0], ElementsAre(1, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(demands[1], ElementsAre(1, 0, kMiB, 0, 0, 0, 0, 0));
}

TEST(CostsOfTest, KnownOpUsesItsPricesAndUnknownOpDefaults) {
  PlanOf plan;
  plan.Kernel("MatMul", {1}, {}, 100, /*flops=*/1000);
  plan.Kernel("Relu", {1}, {}, 100);
  plan.Start(1);
  CostTable table = Caches();
  table.prices["MatMul"] = {5, 0.5};
  table.prices["start AllReduce"] = {7};
  table.other = {1, 0, 0.25};
  EXPECT_THAT(CostsOf(plan, table), ElementsAre(DoubleEq(505), DoubleEq(26), DoubleEq(7)));
}

TEST(CostsOfTest, BranchCostsItsCostlierSideAndLoopOneIteration) {
  auto with = [](int kernels) {
    PlanOf inner;
    for (int i = 0; i < kernels; ++i) inner.Kernel("Use", {1}, {});
    return inner;
  };
  for (const auto& [kind, want] : {std::pair(InstructionKind::kBranch, 1 + 30.0),
                                   std::pair(InstructionKind::kLoop, 1 + 50.0)}) {
    Plan plan;
    plan.instructions.push_back({.kind = kind, .node = 0});
    plan.node_ops = {"Control"};
    plan.accesses.resize(1);
    plan.controls.resize(1);
    for (const int side : {0, 1}) {
      const PlanOf inner = with(side == 0 ? 2 : 3);
      const Plan& from = inner;
      auto copy = std::make_shared<Plan>();
      copy->instructions = from.instructions;
      copy->kernel_flops = from.kernel_flops;
      copy->node_ops = from.node_ops;
      copy->accesses = from.accesses;
      plan.controls[0].plans[side] = copy;
    }
    CostTable table = Caches();
    table.prices["Use"] = {10};
    table.other = {1};
    EXPECT_THAT(CostsOf(plan, table), ElementsAre(DoubleEq(want)));
  }
}

TEST(CriticalPathTest, FollowsLongestChainOfDependencies) {
  PlanOf plan;
  plan.Kernel("Root", {}, {1});
  plan.Kernel("Short", {1}, {2});
  plan.Kernel("Long", {1}, {3});
  plan.Kernel("Join", {2, 3}, {4});
  plan.Kernel("Aside", {}, {5});
  EXPECT_THAT(CriticalPath(plan, {1, 2, 3, 1, 4}), ElementsAre(0, 2, 3));
  EXPECT_THAT(CriticalPath(plan, {1, 2, 1, 1, 4}), ElementsAre(0, 1, 3));
  EXPECT_THAT(CriticalPath(plan, {1, 2, 3, 1, 6}), ElementsAre(4));
}

TEST(CriticalPathTest, IncludesCollectivesAndWriteAfterReadDependencies) {
  PlanOf plan;
  plan.Kernel("Forward", {1}, {2});
  plan.Kernel("Backward", {2}, {3});
  plan.Start(3);
  plan.Kernel("Meanwhile", {2}, {4});
  plan.Finish(3);
  plan.Kernel("Update", {3}, {1});
  EXPECT_THAT(CriticalPath(plan, {1, 1, 1, 1, 1, 1}), ElementsAre(0, 1, 2, 4, 5));
  // The update overwrites what Forward reads, so the path includes Forward.
  PlanOf update_only;
  update_only.Kernel("Forward", {1}, {2});
  update_only.Kernel("Update", {}, {1});
  EXPECT_THAT(CriticalPath(update_only, {5, 1}), ElementsAre(0, 1));
}

TEST(CriticalPathTest, DisjointPartsOfOneValueAreIndependent) {
  PlanOf plan;
  plan.Kernel("First", {}, {1}, 64);
  plan.Kernel("Second", {}, {1}, 64);
  EXPECT_THAT(CriticalPath(plan, {1, 1}), ElementsAre(0, 1));
  Plan apart;
  apart.instructions = {{.kind = InstructionKind::kCopy, .node = 0},
                        {.kind = InstructionKind::kCopy, .node = 1}};
  apart.accesses = {{{{1, 0}, 64, true, 1}}, {{{1, 64}, 64, true, 1}}};
  EXPECT_THAT(CriticalPath(apart, {1, 2}), ElementsAre(1));
}

TEST(ThreadedNs, ThreadsRunSideBySideAndWaitForEachOther) {
  PlanOf plan;
  plan.Kernel("First", {}, {0});
  plan.RunOn(plan.Kernel("Part", {0}, {1}), 1);
  plan.Kernel("Part", {0}, {2});
  plan.Kernel("Last", {1, 2}, {3});
  EXPECT_THAT(ThreadedNs(plan, {1e6, 7e6, 5e6, 5e5}), DoubleEq(7e6));  // nothing waits
  plan.Wait(1, 0);
  plan.Wait(3, 1);
  EXPECT_THAT(ThreadedNs(plan, {1e6, 2e6, 5e6, 5e5}), DoubleEq(1e6 + 5e6 + 5e5));
  const double waits = ThreadedNs(plan, {1e6, 7e6, 5e6, 5e5}) - (1e6 + 7e6 + 5e5);
  EXPECT_GT(waits, 0);
  EXPECT_LT(waits, 1e5);
}

}  // namespace
}  // namespace mirrorflow
