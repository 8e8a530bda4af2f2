// SPDX-License-Identifier: Apache-2.0
#include "tools/bench.h"

#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/core/status.h"
#include "mirrorflow.h"
#include "tools/bench_gates.h"
#include "tools/bench_graphs.h"
#include "tools/bench_report.h"
#include "tools/bench_step.h"
#include "tools/bench_training.h"
#include "tools/hot_path_counter.h"
#include "tools/statistics.h"

ABSL_FLAG(int64_t, max_nodes, 1000000, "bench graphs: the largest graph");
ABSL_DECLARE_FLAG(std::string, model);
ABSL_DECLARE_FLAG(std::string, json);
ABSL_DECLARE_FLAG(std::optional<int>, replicas);

namespace mirrorflow {
namespace {

constexpr int kChainLength = 10000;
constexpr int kCountedSteps = 20;
constexpr int kCompileTurns = 7;

absl::Status BenchFixedCost(Report* report) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {});
  const Output y = ops::Neg(root, x);
  MF_ASSIGN_OR_RETURN(auto strategy, OneDeviceStrategy::Create());
  MF_ASSIGN_OR_RETURN(auto session, strategy->NewSession(graph));
  MF_ASSIGN_OR_RETURN(Step step, session->Prepare({x}, {y}));
  const std::vector<Tensor> feeds = {Tensor::Scalar<float>(1)};
  MF_ASSIGN_OR_RETURN(const Timing timing, Measure([&] { return step.Run(feeds).status(); }));
  report->Add("overhead/step", 1, 0, timing);
  report->AddFigure("C2 step_run_us", timing.median_ms * 1e3, 1);
  return absl::OkStatus();
}

absl::Status BenchDispatch(Report* report) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {});
  Output y = x;
  for (int i = 0; i < kChainLength; ++i) y = ops::Square(root, y);
  MF_ASSIGN_OR_RETURN(auto strategy, OneDeviceStrategy::Create());
  MF_ASSIGN_OR_RETURN(auto session, strategy->NewSession(graph));
  MF_ASSIGN_OR_RETURN(Step step, session->Prepare({x}, {y}));
  MF_ASSIGN_OR_RETURN(const StepPlans plans, step.Compile({Shape()}));
  const size_t num_kernels = plans.plans[0]->kernels.size();
  if (num_kernels != kChainLength) {
    return absl::InternalError(absl::StrCat("the compiler changed the chain; expected ",
                                            kChainLength, " kernels, got ", num_kernels));
  }
  const std::vector<Tensor> feeds = {Tensor::Scalar<float>(1)};
  MF_ASSIGN_OR_RETURN(const Timing timing, Measure([&] { return step.Run(feeds).status(); }));
  report->Add("overhead/chain", 1, 0, timing);
  report->AddFigure("C1 dispatch_ns_a_node", timing.median_ms * 1e6 / kChainLength, 10);
  return absl::OkStatus();
}

void ReportArena(absl::string_view graph, const Plan& plan, Report* report) {
  const double live = static_cast<double>(std::max<int64_t>(plan.live_bytes, 1));
  report->AddFigure(absl::StrCat("C16 arena/live ", graph, ", ", plan.num_arena_values, " values"),
                    static_cast<double>(plan.arena_bytes) / live, 1.05);
}

// How well the arena of a large plan is packed: training of a hundred layers of several widths.
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
  MF_ASSIGN_OR_RETURN(const StepPlans plans, step.Compile({Shape({64, 64})}));
  ReportArena("deep", *plans.plans[0], report);
  return absl::OkStatus();
}

// Allocations and page faults of steps after the first, and how well the arena is packed.
absl::Status BenchSteadyState(Report* report) {
  for (const char* model : {"mlp", "cnn"}) {
    MF_ASSIGN_OR_RETURN(
        TrainingStep t,
        PrepareTraining({.model = model, .replicas = absl::GetFlag(FLAGS_replicas).value_or(2)}));
    for (int i = 0; i < 3; ++i) MF_RETURN_IF_ERROR(t.step.Run(t.feeds).status());
    const HotPathCounts before = CountHotPath();
    for (int i = 0; i < kCountedSteps; ++i) MF_RETURN_IF_ERROR(t.step.Run(t.feeds).status());
    const HotPathCounts spent = CountHotPath() - before;
    auto a_step = [&](absl::string_view what, int64_t count) {
      report->AddFigure(absl::StrCat(what, "_a_step ", model),
                        static_cast<double>(count) / kCountedSteps, 0);
    };
    // oneDNN makes small objects in each call of a primitive, and its interface knows no way round.
    a_step("C17 allocations", spent.allocations);
    a_step("C17 allocations_not_in_onednn", spent.allocations - spent.onednn_allocations);
    a_step("C17 page_faults", spent.page_faults);
    a_step("locks", spent.locks);
    MF_ASSIGN_OR_RETURN(const StepPlans plans,
                        t.step.Compile({t.feeds[0].shape(), t.feeds[1].shape()}));
    const Plan& plan = *plans.plans[0];
    ReportArena(model, plan, report);
    report->AddFigure(absl::StrCat("bytes_copied_to_buckets ", model),
                      static_cast<double>(plan.copied_to_buckets), 0);
  }
  return absl::OkStatus();
}

// From a graph to the plans of all replicas, in a session that has compiled nothing yet.
absl::StatusOr<Timing> MeasureCompile(absl::string_view model, int replicas) {
  MF_ASSIGN_OR_RETURN(auto strategy, MirroredStrategy::Create({.num_cpu_replicas = replicas}));
  MF_ASSIGN_OR_RETURN(TrainingGraph g, BuildTraining(*strategy, model));
  MF_ASSIGN_OR_RETURN(auto session, strategy->NewSession(g.graph));
  MF_ASSIGN_OR_RETURN(const std::vector<Tensor> batch, NoiseBatch(g, 64 * replicas));
  const std::vector<Shape> shapes = {batch[0].shape(), batch[1].shape()};
  return Measure([&]() -> absl::Status {
    MF_ASSIGN_OR_RETURN(Step step, session->Prepare({g.inputs, g.labels}, {g.loss}, {g.train}));
    return step.Compile(shapes).status();
  });
}

// The two sides take turns, or what else runs on the machine would decide their ratio.
absl::Status BenchCompile(Report* report) {
  // Memory that one turn gives back to the system and the next must fetch again is no compile time.
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  const std::string model = absl::GetFlag(FLAGS_model);
  // One replica shards nothing; two and more differ by what is done once a replica.
  const std::vector<int> sides = {1, 2, 8};
  std::map<int, std::vector<Timing>> timings;
  for (int turn = 0; turn < kCompileTurns; ++turn) {
    for (int replicas : sides) {
      MF_ASSIGN_OR_RETURN(const Timing timing, MeasureCompile(model, replicas));
      report->Add(absl::StrCat("compile/", model), replicas, 64, timing);
      timings[replicas].push_back(timing);
    }
  }
  auto median_ratio_to = [&](int other) {
    std::vector<double> ratios;
    for (int turn = 0; turn < kCompileTurns; ++turn) {
      ratios.push_back(timings[8][turn].median_ms / timings[other][turn].median_ms);
    }
    std::nth_element(ratios.begin(), ratios.begin() + kCompileTurns / 2, ratios.end());
    return ratios[kCompileTurns / 2];
  };
  report->AddFigure("compile_8_replicas/2", median_ratio_to(2), 1.3);
  report->AddFigure("C20 compile_8_replicas/1", median_ratio_to(1), 1.3);
  return absl::OkStatus();
}

absl::Status BenchOverhead(Report* report) {
  MF_RETURN_IF_ERROR(BenchFixedCost(report));
  MF_RETURN_IF_ERROR(BenchDispatch(report));
  MF_RETURN_IF_ERROR(BenchArena(report));
  return BenchSteadyState(report);
}

// Time and memory should grow as the nodes do.
absl::Status BenchGraphs(Report* report) {
  const int64_t most = absl::GetFlag(FLAGS_max_nodes);
  for (const absl::string_view shape : {"chain", "wide", "equal", "functions"}) {
    for (int64_t nodes = 1000; nodes <= most; nodes *= 10) {
      MF_ASSIGN_OR_RETURN(const GraphCost cost, MeasureGraph(shape, nodes));
      report->AddGraph(shape, cost);
    }
  }
  return absl::OkStatus();
}

// What the flags can get wrong, before anything is measured.
absl::Status CheckFlags() {
  MF_RETURN_IF_ERROR(CheckStepFlags());
  MF_RETURN_IF_ERROR(CheckFlagRange("max_nodes", absl::GetFlag(FLAGS_max_nodes), 1000, 100000000));
  MF_RETURN_IF_ERROR(CheckOutputFlag("json", absl::GetFlag(FLAGS_json)));
  const absl::Status strategy =
      MirroredStrategy::Create({.num_cpu_replicas = absl::GetFlag(FLAGS_replicas).value_or(2)})
          .status();
  return Annotate(strategy, "--replicas");
}

}  // namespace

absl::Status Bench(const std::vector<std::string>& args, ExitCode* code) {
  *code = kExitUsage;
  MF_RETURN_IF_ERROR(CheckFlags());
  const std::string what = args.size() == 1 ? args[0] : "";
  const std::map<absl::string_view, absl::Status (*)(Report*)> benches = {
      {"step", BenchStep},
      {"overhead", BenchOverhead},
      {"compile", BenchCompile},
      {"gates", BenchGates},
      {"graphs", BenchGraphs}};
  const auto bench = benches.find(what);
  if (bench == benches.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "bench: unknown; expected one of step, gates, overhead, compile, graphs, got '", what,
        "'"));
  }
  *code = kExitBadInput;
  Report report;
  MF_RETURN_IF_ERROR(Annotate(bench->second(&report), absl::StrCat("bench ", what)));
  return report.Write();
}

}  // namespace mirrorflow
