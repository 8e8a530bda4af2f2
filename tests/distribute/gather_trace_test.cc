// SPDX-License-Identifier: Apache-2.0
//
// Tests traces of several workers in one file, on one clock.
#include "framework/workers/gather_trace.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/check_trace.h"
#include "tests/support/is_error.h"
#include "tests/support/test_workers.h"
#include "train/layers/layers.h"
#include "train/optimizers/optimizers.h"

namespace mirrorflow {
namespace {

using ::testing::HasSubstr;

constexpr int kWorkers = 2, kReplicas = 2, kSteps = 3;
constexpr int64_t kSkewNs = 3'000'000'000;  // how far worker 1's clock is ahead
constexpr uint64_t kOfAllRanks = (uint64_t{1} << 48) - 1;

// Two layers whose gradients are reduced in several buckets.
struct Model {
  Model() {
    const Scope root(&graph);
    x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 300});
    const Output y = layers::Dense(root, layers::Dense(root, x, 400, ops::Relu), 10);
    loss = ops::Mean(root, ops::Square(root, y), {0, 1});
    train = GradientDescent({.learning_rate = 0.1}).Minimize(root, loss);
  }
  absl::StatusOr<Step> Prepare(Session& session) const {
    return session.Prepare({x}, {loss}, {train});
  }

  Graph graph;
  Output x, loss;
  Operation train;
  const Tensor rows = Tensor::Allocate(DT_FLOAT, Shape({8, 300})).value();
};

absl::StatusOr<std::unique_ptr<TestWorkers>> CreateWorkers(const Model& model,
                                                           absl::Duration timeout) {
  return TestWorkers::Create([&](int) -> const Graph& { return model.graph; },
                             {.workers = kWorkers,
                              .replicas = kReplicas,
                              .collective_timeout = timeout,
                              .session = {.prepare_timeout = timeout}});
}

absl::Status RunSteps(Step& step, const Model& model, int count) {
  for (int i = 0; i < count; ++i) MF_RETURN_IF_ERROR(step.Run({model.rows}).status());
  return absl::OkStatus();
}

struct Interval {
  int64_t begin = 0, end = 0;
};
// For each collective, maps each rank to the interval during which the collective is in flight.
using Flights = std::map<std::pair<std::string, uint64_t>, std::map<int, Interval>>;

Flights FlightsOf(const TraceWriter& trace) {
  Flights flights;
  for (const TraceEvent& event : trace.events()) {
    Interval& flight = flights[{event.name, event.id & kOfAllRanks}][event.pid];
    if (event.kind == TraceEvent::kAsyncBegin) flight.begin = event.start_ns;
    if (event.kind == TraceEvent::kAsyncEnd) flight.end = event.start_ns;
  }
  std::erase_if(flights, [](const auto& flight) { return flight.second.begin()->second.end == 0; });
  return flights;
}

// Returns how many collectives are in flight on all ranks at the same time, to within `error_ns`.
int CountOverlapping(const Flights& flights, int64_t error_ns) {
  int count = 0;
  for (const auto& [collective, by_rank] : flights) {
    Interval common = by_rank.begin()->second;
    for (const auto& [rank, flight] : by_rank) {
      common = {std::max(common.begin, flight.begin), std::min(common.end, flight.end)};
    }
    count += by_rank.size() == kWorkers * kReplicas && common.begin <= common.end + error_ns;
  }
  return count;
}

struct Gathered {
  TraceWriter trace;  // from worker 0
  int64_t error_ns = 0;
};

// Traces steps of two workers. Worker 1's clock is ahead by kSkewNs. If `knows_skew` is true,
// worker 1 also takes its barrier times from that clock.
absl::StatusOr<Gathered> TraceSkewedWorkers(bool knows_skew) {
  const Model model;
  MF_ASSIGN_OR_RETURN(auto workers, CreateWorkers(model, absl::Seconds(60)));
  std::vector<TraceWriter> traces(kWorkers);
  std::vector<std::vector<Passage>> passages(kWorkers);
  MF_RETURN_IF_ERROR(workers->OnAll([&](int w) -> absl::Status {
    Session& session = workers->session(w);
    MF_ASSIGN_OR_RETURN(Step step, model.Prepare(session));
    TraceWriter trace;
    MF_RETURN_IF_ERROR(session.TraceTo(&trace));
    MF_RETURN_IF_ERROR(RunSteps(step, model, kSteps));
    MF_RETURN_IF_ERROR(session.TraceTo(nullptr));
    MF_ASSIGN_OR_RETURN(passages[w], session.PassBarriers());
    const int64_t skew_ns = w == 1 ? kSkewNs : 0;
    for (TraceEvent event : trace.events()) {
      event.start_ns += skew_ns;
      traces[w].Add(std::move(event));
    }
    for (Passage& passage : passages[w]) {
      passage.enter_ns += knows_skew ? skew_ns : 0;
      passage.leave_ns += knows_skew ? skew_ns : 0;
    }
    return GatherTrace("trace", passages[w], *workers->cluster().worker_group(w),
                       MonotonicTime::Now() + absl::Seconds(60), &traces[w]);
  }));
  MF_ASSIGN_OR_RETURN(const ClockOffset offset, OffsetOf(passages[1], passages[0]));
  return Gathered{std::move(traces[0]), offset.max_error_ns};
}

TEST(GatherTraceTest, CollectivesOverlapDespiteSkewedClocks) {
  const absl::StatusOr<Gathered> gathered = TraceSkewedWorkers(/*knows_skew=*/true);
  ASSERT_TRUE(gathered.ok()) << gathered.status();
  const absl::Status status = CheckTrace(gathered->trace);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_LT(gathered->error_ns, kSkewNs / 10);
  const Flights flights = FlightsOf(gathered->trace);
  EXPECT_GE(flights.size(), kSteps * 2);
  EXPECT_EQ(CountOverlapping(flights, gathered->error_ns), flights.size());
}

TEST(GatherTraceTest, CollectivesDoNotOverlapWithoutAlignment) {
  const absl::StatusOr<Gathered> gathered = TraceSkewedWorkers(/*knows_skew=*/false);
  ASSERT_TRUE(gathered.ok()) << gathered.status();
  const Flights flights = FlightsOf(gathered->trace);
  EXPECT_GE(flights.size(), kSteps * 2);
  EXPECT_EQ(CountOverlapping(flights, gathered->error_ns), 0);
}

TEST(GatherTraceTest, SessionGathersReplicasOfAllWorkersRepeatedly) {
  const Model model;
  auto workers = CreateWorkers(model, absl::Seconds(60));
  ASSERT_TRUE(workers.ok()) << workers.status();
  for (int round = 0; round < 2; ++round) {
    std::vector<TraceWriter> traces(kWorkers);
    const absl::Status status = (*workers)->OnAll([&](int w) -> absl::Status {
      Session& session = (*workers)->session(w);
      MF_ASSIGN_OR_RETURN(Step step, model.Prepare(session));
      MF_RETURN_IF_ERROR(RunSteps(step, model, 1));  // leaves updates in flight
      MF_RETURN_IF_ERROR(session.TraceTo(&traces[w]));
      MF_RETURN_IF_ERROR(RunSteps(step, model, kSteps));
      MF_RETURN_IF_ERROR(session.GatherTrace());
      return RunSteps(step, model, 1);  // not traced
    });
    ASSERT_TRUE(status.ok()) << status;
    const absl::Status check = CheckTrace(traces[0]);
    EXPECT_TRUE(check.ok()) << check;
    EXPECT_THAT(traces[0].ToJson(), HasSubstr("\"clock of worker 1\":"));
    std::map<int, int> steps;  // step count of each rank
    for (const TraceEvent& event : traces[0].events()) steps[event.pid] += event.category == "step";
    EXPECT_EQ(steps, (std::map<int, int>{{0, kSteps}, {1, kSteps}, {2, kSteps}, {3, kSteps}}));
    EXPECT_EQ(traces[0].processes().at(1), "worker 0, replica 1 (CPU:1)");
    EXPECT_EQ(traces[0].processes().at(2), "worker 1, replica 2 (CPU:0)");
    std::set<int> of_worker_1;
    for (const TraceEvent& event : traces[1].events()) of_worker_1.insert(event.pid);
    EXPECT_EQ(of_worker_1, (std::set<int>{2, 3}));
  }
}

TEST(GatherTraceTest, UpdateInFlightBetweenStepsIsOneSpan) {
  const Model model;
  auto workers = CreateWorkers(model, absl::Seconds(60));
  ASSERT_TRUE(workers.ok()) << workers.status();
  std::vector<TraceWriter> traces(kWorkers);
  const absl::Status status = (*workers)->OnAll([&](int w) -> absl::Status {
    MF_ASSIGN_OR_RETURN(Step step, model.Prepare((*workers)->session(w)));
    MF_RETURN_IF_ERROR((*workers)->session(w).TraceTo(&traces[w]));
    MF_RETURN_IF_ERROR(RunSteps(step, model, kSteps));
    return (*workers)->session(w).GatherTrace();
  });
  ASSERT_TRUE(status.ok()) << status;
  std::vector<Interval> steps;  // the steps of rank 0
  for (const TraceEvent& event : traces[0].events()) {
    if (event.pid != 0 || event.category != "step") continue;
    steps.push_back({event.start_ns, event.start_ns + event.duration_ns});
  }
  ASSERT_EQ(steps.size(), kSteps);
  std::vector<int> between(kSteps);  // per step: its collectives that end after it
  for (const auto& [collective, by_rank] : FlightsOf(traces[0])) {
    for (int i = 0; i < kSteps; ++i) {
      const Interval& flight = by_rank.at(0);
      between[i] += steps[i].begin <= flight.begin && flight.begin < steps[i].end &&
                    steps[i].end < flight.end;
    }
  }
  for (int i = 0; i < kSteps; ++i) EXPECT_GT(between[i], 0) << "step " << i;
}

TEST(GatherTraceTest, MissingWorkerFailsGatherAtDeadline) {
  const Model model;
  auto workers = CreateWorkers(model, absl::Seconds(1));
  ASSERT_TRUE(workers.ok()) << workers.status();
  TraceWriter trace;
  const auto statuses = (*workers)->OnEach([&](int w) {
    if (w == 1) return absl::OkStatus();
    MF_RETURN_IF_ERROR((*workers)->session(w).TraceTo(&trace));
    return (*workers)->session(w).GatherTrace();
  });
  EXPECT_THAT(statuses[0],
              IsError(absl::StatusCode::kDeadlineExceeded, "barrier 'clocks'", "from rank 2"));
}

TEST(GatherTraceTest, GatherOfUntracedSessionFails) {
  const Model model;
  auto workers = CreateWorkers(model, absl::Seconds(60));
  ASSERT_TRUE(workers.ok()) << workers.status();
  EXPECT_THAT((*workers)->session(0).GatherTrace(),
              IsError(absl::StatusCode::kFailedPrecondition, "GatherTrace", "not traced"));
}

}  // namespace
}  // namespace mirrorflow
