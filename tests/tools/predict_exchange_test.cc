// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/predict_exchange.h"

#include <vector>

#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

constexpr LinkCosts kLink = {.message_ns = 10, .byte_ns = 2};

Topology DomainsOf(int count) {
  Topology topology;
  for (int d = 0; d < count; ++d) topology.replicas.push_back({.worker = d, .domain = d});
  return topology;
}

// A plan of kernels and of updates, each with one collective of `bytes`.
struct Schedule {
  Plan plan;
  std::vector<double> costs;

  void Add(InstructionKind kind, int index, double cost) {
    plan.instructions.push_back({.kind = kind, .index = index});
    costs.push_back(cost);
  }
  int Update(int64_t bytes) {
    plan.collectives.push_back({.operation = PlannedUpdate{.reduction = Reduction::kSum},
                                .dtype = DT_UINT8,
                                .count = bytes});
    return static_cast<int>(plan.collectives.size()) - 1;
  }
};

TEST(PredictExchangeTest, OnlyWaitsAreExposed) {
  Schedule s;
  const int first = s.Update(100), second = s.Update(50);
  s.Add(InstructionKind::kStart, first, 0);
  s.Add(InstructionKind::kKernel, 0, 150);
  s.Add(InstructionKind::kStart, second, 0);   // waits for the link until time 200
  s.Add(InstructionKind::kFinish, first, 5);   // arrives at time 210
  s.Add(InstructionKind::kFinish, second, 5);  // arrives at time 310
  const ExchangePrediction p = PredictExchange(s.plan, s.costs, DomainsOf(2), kLink);
  EXPECT_EQ(p.sent_bytes, 150);
  EXPECT_EQ(p.network_ns, 300);
  EXPECT_EQ(p.exposed_ns, 60 + 95);
  EXPECT_EQ(p.step_ns, 315);
}

TEST(PredictExchangeTest, LateUpdatesTakeUntilTheNextStepNeedsThem) {
  Schedule s;
  const int update = s.Update(100);
  s.Add(InstructionKind::kKernel, 0, 80);
  s.Add(InstructionKind::kFinishLate, update, 0);
  s.Add(InstructionKind::kKernel, 0, 300);
  s.Add(InstructionKind::kStart, update, 0);
  EXPECT_EQ(PredictExchange(s.plan, s.costs, DomainsOf(2), kLink).exposed_ns, 210 - 80);
}

TEST(PredictExchangeTest, MoreDomainsSendMore) {
  Schedule s;
  const int update = s.Update(90'000);
  s.Add(InstructionKind::kStart, update, 0);
  s.Add(InstructionKind::kFinish, update, 0);
  const ExchangePrediction p = PredictExchange(s.plan, s.costs, DomainsOf(3), kLink);
  EXPECT_EQ(p.sent_bytes, 120'000);  // 2 · 2/3 of 90,000
  EXPECT_EQ(p.exposed_ns, 240'000 + 2 * 10);
}

TEST(PredictExchangeTest, SmallValuesTakeOneRound) {
  Schedule s;
  const int update = s.Update(90);
  s.Add(InstructionKind::kStart, update, 0);
  s.Add(InstructionKind::kFinish, update, 0);
  const ExchangePrediction p = PredictExchange(s.plan, s.costs, DomainsOf(3), kLink);
  EXPECT_EQ(p.sent_bytes, 180);  // the whole value to both peers
  EXPECT_EQ(p.exposed_ns, 360 + 10);
}

TEST(PredictExchangeTest, UpdatesByKnownValuesSendNothing) {
  Schedule s;
  s.plan.collectives.push_back({.operation = PlannedUpdate{}, .dtype = DT_UINT8, .count = 90});
  s.Add(InstructionKind::kStart, 0, 0);
  EXPECT_EQ(PredictExchange(s.plan, s.costs, DomainsOf(2), kLink).sent_bytes, 0);
}

TEST(PredictExchangeTest, RowsOfProductsAreSentAndProductsComputedByAll) {
  Schedule s;
  s.plan.collectives.push_back(
      {.operation = PlannedProductUpdate{}, .dtype = DT_UINT8, .count = 30});
  s.Add(InstructionKind::kStart, 0, 0);
  s.Add(InstructionKind::kFinish, 0, 100);
  const ExchangePrediction p = PredictExchange(s.plan, s.costs, DomainsOf(3), kLink);
  EXPECT_EQ(p.sent_bytes, 20);
  EXPECT_EQ(p.step_ns, 40 + 10 + 300);
}

}  // namespace
}  // namespace mirrorflow
