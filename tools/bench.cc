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
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "examples/models.h"
#include "framework/core/file.h"
#include "framework/core/status.h"
#include "mirrorflow.h"
#include "tools/bench_graphs.h"
#include "tools/hot_path_counter.h"
#include "tools/statistics.h"

ABSL_FLAG(std::string, model, "mlp", "bench: mlp, cnn or resnet");
ABSL_FLAG(int64_t, batch_size, 64, "bench: examples a step and replica");
ABSL_FLAG(int64_t, max_nodes, 1000000, "bench graphs: the largest graph");
ABSL_FLAG(std::string, json, "", "bench: write one JSON object a line to this file");
ABSL_DECLARE_FLAG(std::optional<int>, replicas);

namespace mirrorflow {
namespace {

constexpr int kChainLength = 10000;
constexpr int kCountedSteps = 20;
constexpr int kCompileTurns = 7;

// A training step on images of noise, ready to run.
struct TrainingStep {
  std::unique_ptr<MirroredStrategy> strategy;
  std::unique_ptr<Session> session;
  Step step;
  std::vector<Tensor> feeds;
};

struct TrainingGraph {
  Graph graph;
  Classifier model;
  Operation train;
};

absl::StatusOr<TrainingGraph> BuildTraining(const Strategy& strategy, absl::string_view name) {
  TrainingGraph t;
  const Scope root(&t.graph);
  auto mirrored = strategy.scope();
  MF_ASSIGN_OR_RETURN(t.model, BuildClassifier(root, name));
  t.train = GradientDescent({.learning_rate = 0.01}).Minimize(root, t.model.loss);
  MF_RETURN_IF_ERROR(t.graph.status());
  return t;
}

// Numbers without a pattern, equal in every run.
absl::StatusOr<std::vector<Tensor>> NoiseBatch(absl::string_view model, int64_t rows) {
  const Shape shape = model == "mlp" ? Shape({rows, 784}) : Shape({rows, 28, 28, 1});
  MF_ASSIGN_OR_RETURN(Tensor images, Tensor::Allocate(DT_FLOAT, shape));
  MF_ASSIGN_OR_RETURN(Tensor labels, Tensor::Allocate(DT_INT32, Shape({rows})));
  uint32_t state = 1;
  auto next = [&state] { return (state = state * 1664525u + 1013904223u) >> 8; };
  for (float& x : images.flat<float>()) x = static_cast<float>(next()) / (1 << 24);
  for (int32_t& y : labels.flat<int32_t>()) y = static_cast<int32_t>(next() % 10);
  return std::vector<Tensor>{images, labels};
}

absl::StatusOr<TrainingStep> PrepareTraining(absl::string_view model, int64_t batch_size,
                                             int replicas) {
  TrainingStep t;
  MF_ASSIGN_OR_RETURN(t.strategy, MirroredStrategy::Create({.num_cpu_replicas = replicas}));
  MF_ASSIGN_OR_RETURN(TrainingGraph g, BuildTraining(*t.strategy, model));
  MF_ASSIGN_OR_RETURN(t.session, t.strategy->NewSession(g.graph));
  MF_ASSIGN_OR_RETURN(
      t.step, t.session->Prepare({g.model.images, g.model.labels}, {g.model.loss}, {g.train}));
  MF_ASSIGN_OR_RETURN(t.feeds, NoiseBatch(model, batch_size * t.strategy->num_replicas_in_sync()));
  return t;
}

// One line for a person, and one object for --json.
class Report {
 public:
  void Add(absl::string_view name, int replicas, int64_t batch_size, const Timing& timing) {
    std::printf(
        "%-28s replicas=%d batch_size=%-4d median_ms=%.4f min_ms=%.4f iqr_ms=%.4f rounds=%d "
        "discarded=%d\n",
        std::string(name).c_str(), replicas, static_cast<int>(batch_size), timing.median_ms,
        timing.min_ms, timing.iqr_ms, timing.rounds, timing.discarded);
    absl::StrAppendFormat(&json_,
                          "{\"case\": \"%s\", \"implementation\": \"mirrorflow\", \"version\": "
                          "\"0.1\", \"replicas\": %d, \"batch_size_per_replica\": %d, "
                          "\"median_ms\": %.6f, \"min_ms\": %.6f, \"iqr_ms\": %.6f, \"rounds\": "
                          "%d}\n",
                          name, replicas, batch_size, timing.median_ms, timing.min_ms,
                          timing.iqr_ms, timing.rounds);
  }
  // A figure that is no time, with the bound it should keep.
  void AddFigure(absl::string_view name, double value, double bound) {
    std::printf("%-28s %.4g (at most %.4g) %s\n", std::string(name).c_str(), value, bound,
                value <= bound ? "met" : "missed");
    absl::StrAppendFormat(&json_, "{\"case\": \"%s\", \"value\": %.6g, \"at_most\": %.6g}\n", name,
                          value, bound);
  }
  void AddGraph(absl::string_view shape, const GraphCost& cost) {
    const double nodes = static_cast<double>(cost.nodes);
    std::printf(
        "graphs/%-6s nodes=%-8lld load_ms=%.1f session_ms=%.1f compile_ms=%.1f run_ms=%.2f "
        "us_a_node=%.2f bytes_a_node=%.0f\n",
        std::string(shape).c_str(), static_cast<long long>(cost.nodes), cost.load_ms,
        cost.session_ms, cost.compile_ms, cost.run_ms, cost.total_ms() * 1e3 / nodes,
        static_cast<double>(cost.peak_bytes) / nodes);
    absl::StrAppendFormat(&json_,
                          "{\"case\": \"graphs/%s\", \"nodes\": %d, \"load_ms\": %.6g, "
                          "\"session_ms\": %.6g, \"compile_ms\": %.6g, \"run_ms\": %.6g, "
                          "\"peak_bytes\": %d}\n",
                          shape, cost.nodes, cost.load_ms, cost.session_ms, cost.compile_ms,
                          cost.run_ms, cost.peak_bytes);
  }
  absl::Status Write() const {
    const std::string path = absl::GetFlag(FLAGS_json);
    if (path.empty()) return absl::OkStatus();
    return WriteFileAtomically(path, {json_});
  }

 private:
  std::string json_;
};

absl::Status BenchStep(Report* report) {
  const std::string model = absl::GetFlag(FLAGS_model);
  const int64_t batch_size = absl::GetFlag(FLAGS_batch_size);
  MF_ASSIGN_OR_RETURN(TrainingStep t, PrepareTraining(model, batch_size,
                                                      absl::GetFlag(FLAGS_replicas).value_or(2)));
  const int replicas = t.strategy->num_replicas_in_sync();
  MF_ASSIGN_OR_RETURN(const Timing timing, Measure([&] { return t.step.Run(t.feeds).status(); },
                                                   {.canary_threads = replicas}));
  report->Add(absl::StrCat("step/", model), replicas, batch_size, timing);
  return absl::OkStatus();
}

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
    MF_ASSIGN_OR_RETURN(TrainingStep t,
                        PrepareTraining(model, 64, absl::GetFlag(FLAGS_replicas).value_or(2)));
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
  MF_ASSIGN_OR_RETURN(const std::vector<Tensor> batch, NoiseBatch(model, 64 * replicas));
  const std::vector<Shape> shapes = {batch[0].shape(), batch[1].shape()};
  return Measure([&]() -> absl::Status {
    MF_ASSIGN_OR_RETURN(
        Step step, session->Prepare({g.model.images, g.model.labels}, {g.model.loss}, {g.train}));
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
  MF_RETURN_IF_ERROR(CheckFlagRange("batch_size", absl::GetFlag(FLAGS_batch_size), 1,
                                    std::numeric_limits<int32_t>::max()));
  MF_RETURN_IF_ERROR(CheckFlagRange("max_nodes", absl::GetFlag(FLAGS_max_nodes), 1000, 100000000));
  MF_RETURN_IF_ERROR(CheckOutputFlag("json", absl::GetFlag(FLAGS_json)));
  Graph graph;
  const absl::Status model = BuildClassifier(Scope(&graph), absl::GetFlag(FLAGS_model)).status();
  MF_RETURN_IF_ERROR(Annotate(model, "--model"));
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
      {"graphs", BenchGraphs}};
  const auto bench = benches.find(what);
  if (bench == benches.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "bench: unknown; expected one of step, overhead, compile, graphs, got '", what, "'"));
  }
  *code = kExitBadInput;
  Report report;
  MF_RETURN_IF_ERROR(Annotate(bench->second(&report), absl::StrCat("bench ", what)));
  return report.Write();
}

}  // namespace mirrorflow
