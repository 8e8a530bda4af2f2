// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "mirrorflow_debug.h"
#include "tools/bench/benchmarks.h"
#include "tools/bench/hot_path_counter.h"
#include "tools/bench/statistics.h"
#include "tools/bench/training_case.h"
#include "tools/flags/step_flags.h"

namespace mirrorflow {
namespace {

constexpr int kChainLength = 10000;
constexpr int kCountedSteps = 20;

// Measures a step that computes `y` from the scalar `x`. Reports its time and, as the goal, its
// time divided by `nodes`.
absl::Status BenchScalar(const Graph& graph, const Output& x, const Output& y, int nodes,
                         absl::string_view name, Goal goal, double units_a_ms, Report* report) {
  MF_ASSIGN_OR_RETURN(auto strategy, OneDeviceStrategy::Create());
  MF_ASSIGN_OR_RETURN(auto session, strategy->NewSession(graph));
  MF_ASSIGN_OR_RETURN(Step step, session->Prepare({x}, {y}));
  MF_ASSIGN_OR_RETURN(const StepPlans plans, CompileStep(step, {Shape()}));
  const size_t num_kernels = plans.plans[0]->kernels.size();
  if (num_kernels != static_cast<size_t>(nodes)) {
    return absl::InternalError(absl::StrCat("the compiler changed the graph; expected ", nodes,
                                            " kernels, got ", num_kernels));
  }
  const std::vector<Tensor> feeds = {Tensor::Scalar<float>(1)};
  MF_ASSIGN_OR_RETURN(
      const Rounds rounds,
      MeasureInTurns({MakeSide([&] { return step.Run(feeds).status(); })}, TimingOptions()));
  report->Add(name, 1, 0, TimingOf(rounds, 0));
  std::vector<double> figures = rounds.ms[0];
  for (double& figure : figures) figure *= units_a_ms / nodes;
  goal.figure = MedianOf(figures);
  report->Add(goal);
  return absl::OkStatus();
}

void ReportArena(absl::string_view graph, const Plan& plan, Report* report) {
  const double live = static_cast<double>(std::max<int64_t>(plan.live_bytes, 1));
  report->Add({.gate = "C16",
               .what = absl::StrCat("arena / peak of live bytes, ", graph, ", ",
                                    plan.num_arena_values, " values"),
               .figure = Estimate::Exactly(static_cast<double>(plan.arena_bytes) / live),
               .bound = 1.05,
               .at_most = true});
}

void ReportCount(absl::string_view gate, absl::string_view what, double count, Report* report) {
  report->Add({.gate = std::string(gate),
               .what = std::string(what),
               .figure = Estimate::Exactly(count),
               .at_most = true});
}

}  // namespace

absl::Status BenchDispatch(Report* report) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {});
  Output y = x;
  for (int i = 0; i < kChainLength; ++i) y = ops::Square(root, y);
  const Goal goal = {.gate = "C1",
                     .what = "dispatch of a node, 10,000 in a chain",
                     .unit = "ns",
                     .bound = 10,
                     .at_most = true};
  return BenchScalar(graph, x, y, kChainLength, "overhead/chain", goal, 1e6, report);
}

absl::Status BenchFixedCost(Report* report) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {});
  const Goal goal = {.gate = "C2",
                     .what = "one step, feed and fetch of a scalar",
                     .unit = "µs",
                     .bound = 1,
                     .at_most = true};
  return BenchScalar(graph, x, ops::Neg(root, x), 1, "overhead/step", goal, 1e3, report);
}

// Measures the training of a hundred layers of several widths, and of two models.
absl::Status BenchArena(Report* report) {
  MF_ASSIGN_OR_RETURN(auto strategy, OneDeviceStrategy::Create());
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root, DT_FLOAT, {-1, 64});
  Output y = x;
  for (int i = 0; i < 100; ++i) y = layers::Dense(root, y, 16 + 8 * (i * 5 % 11), ops::Tanh);
  const Output loss = ops::Mean(root, ops::Square(root, y), {0, 1});
  const Operation train = Adam({}).Minimize(root, loss);
  MF_ASSIGN_OR_RETURN(auto session, strategy->NewSession(graph));
  MF_ASSIGN_OR_RETURN(Step step, session->Prepare({x}, {loss}, {train}));
  MF_ASSIGN_OR_RETURN(const StepPlans plans, CompileStep(step, {Shape({64, 64})}));
  ReportArena("100 layers", *plans.plans[0], report);
  for (const char* model : {"mlp", "cnn"}) {
    MF_ASSIGN_OR_RETURN(ReadyStep t, PrepareTraining({.model = model, .replicas = 2}));
    MF_ASSIGN_OR_RETURN(const StepPlans own,
                        CompileStep(t.step, {t.feeds[0].shape(), t.feeds[1].shape()}));
    ReportArena(model, *own.plans[0], report);
  }
  return absl::OkStatus();
}

// Counts the allocations, locks and page faults of steps after a warm-up.
absl::Status BenchSteadyState(Report* report) {
  for (const char* model : {"mlp", "cnn"}) {
    MF_ASSIGN_OR_RETURN(
        ReadyStep t,
        PrepareTraining({.model = model, .replicas = absl::GetFlag(FLAGS_replicas).value_or(2)}));
    for (int i = 0; i < 3; ++i) MF_RETURN_IF_ERROR(t.step.Run(t.feeds).status());
    const HotPathCounts before = CountHotPath();
    for (int i = 0; i < kCountedSteps; ++i) MF_RETURN_IF_ERROR(t.step.Run(t.feeds).status());
    const HotPathCounts spent = CountHotPath() - before;
    auto a_step = [&](absl::string_view gate, absl::string_view what, int64_t count) {
      ReportCount(gate, absl::StrCat(what, " a step, ", model),
                  static_cast<double>(count) / kCountedSteps, report);
    };
    // oneDNN allocates small objects in each primitive call. Its API cannot prevent this.
    a_step("C17", "allocations", spent.allocations);
    a_step("C17", "allocations outside oneDNN", spent.allocations - spent.onednn_allocations);
    a_step("C17", "page faults", spent.page_faults);
    a_step("", "locks", spent.locks);
    MF_ASSIGN_OR_RETURN(const StepPlans plans,
                        CompileStep(t.step, {t.feeds[0].shape(), t.feeds[1].shape()}));
    ReportCount("", absl::StrCat("bytes copied to buckets, ", model),
                static_cast<double>(plans.plans[0]->copied_to_buckets), report);
  }
  return absl::OkStatus();
}

absl::Status BenchOverhead(Report* report) {
  MF_RETURN_IF_ERROR(BenchFixedCost(report));
  MF_RETURN_IF_ERROR(BenchDispatch(report));
  MF_RETURN_IF_ERROR(BenchArena(report));
  return BenchSteadyState(report);
}

}  // namespace mirrorflow
