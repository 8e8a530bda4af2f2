// SPDX-License-Identifier: Apache-2.0
#include <malloc.h>

#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "mirrorflow_debug.h"
#include "tools/bench/benchmarks.h"
#include "tools/bench/statistics.h"
#include "tools/bench/training_case.h"
#include "tools/flags/step_flags.h"

namespace mirrorflow {
namespace {

// Keeps freed memory in the process, because requesting it from the system again
// would be timed as part of the compilation.
void KeepMemory() { mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max()); }

// Makes a side that compiles once per round, regardless of the round's length.
Side CompileOf(absl::string_view shape, int64_t nodes) {
  return [shape, nodes](double) -> absl::StatusOr<double> {
    MF_ASSIGN_OR_RETURN(const GraphCost cost, MeasureGraph(shape, nodes));
    return cost.compile_ms;
  };
}

// Makes a side that compiles a graph to the plans of all replicas in a new session.
absl::StatusOr<Side> TrainingCompile(absl::string_view model, int replicas) {
  struct Subject {
    std::unique_ptr<MirroredStrategy> strategy;
    TrainingGraph training;
    std::unique_ptr<Session> session;
    std::vector<Shape> shapes;
  };
  auto s = std::make_shared<Subject>();
  // Disable eviction, so only compilation is timed.
  MF_ASSIGN_OR_RETURN(s->strategy, MirroredStrategy::Create({.num_cpu_replicas = replicas,
                                                             .max_cached_steps = 1 << 20}));
  MF_ASSIGN_OR_RETURN(s->training, BuildTraining(*s->strategy, model));
  MF_ASSIGN_OR_RETURN(s->session, s->strategy->NewSession(s->training.graph));
  MF_ASSIGN_OR_RETURN(const std::vector<Tensor> batch, NoiseBatch(s->training, 64 * replicas));
  s->shapes = {batch[0].shape(), batch[1].shape()};
  return MakeSide([s]() -> absl::Status {
    const TrainingGraph& t = s->training;
    MF_ASSIGN_OR_RETURN(Step step, s->session->Prepare({t.inputs, t.labels}, {t.loss}, t.targets));
    return CompileStep(step, s->shapes).status();
  });
}

}  // namespace

absl::Status BenchCompileNodes(Report* report) {
  KeepMemory();
  for (const char* shape : {"chain", "wide"}) {
    MF_ASSIGN_OR_RETURN(
        const Rounds rounds,
        MeasureInTurns({CompileOf(shape, 1000), CompileOf(shape, 10000), CompileOf(shape, 100000)},
                       {.rounds = 7}));
    std::vector<double> us_a_node = rounds.ms[0];  // ms per 1,000 nodes
    report->Add({.gate = "C19",
                 .what = absl::StrCat("compile, a node of 1,000 (", shape, ")"),
                 .figure = MedianOf(us_a_node),
                 .unit = "µs",
                 .bound = 10,
                 .at_most = true});
    report->Add({.gate = "C19",
                 .what = absl::StrCat("compile, 100,000 nodes / 10,000 (", shape, ")"),
                 .figure = RatioOf(rounds.ms[2], rounds.ms[1]),
                 .bound = 13,
                 .at_most = true,
                 .ours = FormatMedian(rounds, 2),
                 .peer = FormatMedian(rounds, 1)});
  }
  malloc_trim(0);  // the next benchmark starts without these free blocks
  return absl::OkStatus();
}

absl::Status BenchCompileReplicas(absl::string_view model, Report* report) {
  KeepMemory();
  // With one replica, nothing is sharded. With two or more, only the work per replica grows.
  const std::vector<int> replicas = {1, 2, 8};
  std::vector<Side> sides;
  for (int n : replicas) {
    MF_ASSIGN_OR_RETURN(Side side, TrainingCompile(model, n));
    sides.push_back(std::move(side));
  }
  MF_ASSIGN_OR_RETURN(const Rounds rounds, MeasureInTurns(sides, TimingOptions()));
  for (size_t side = 0; side < sides.size(); ++side) {
    report->Add(absl::StrCat("compile/", model), replicas[side], 64, TimingOf(rounds, side));
  }
  for (size_t other : {1, 0}) {
    report->Add({.gate = "C20",
                 .what = absl::StrCat("compile ", model, ", 8 replicas / ", replicas[other]),
                 .figure = RatioOf(rounds.ms[2], rounds.ms[other]),
                 .bound = 1.3,
                 .at_most = true,
                 .ours = FormatMedian(rounds, 2),
                 .peer = FormatMedian(rounds, other)});
  }
  return absl::OkStatus();
}

absl::Status BenchCompile(Report* report) {
  MF_RETURN_IF_ERROR(BenchCompileNodes(report));
  return BenchCompileReplicas(absl::GetFlag(FLAGS_model), report);
}

}  // namespace mirrorflow
