// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "mirrorflow_debug.h"
#include "tools/bench/bench_report.h"
#include "tools/bench/benchmarks.h"
#include "tools/bench/graph_case.h"
#include "tools/flags/graph_flags.h"
#include "tools/flags/step_flags.h"

namespace mirrorflow {
namespace {

constexpr struct {
  const char* name;
  absl::Status (*run)(Report*);
  absl::Status (*check)() = nullptr;  // checks flags whose valid values depend on the benchmark
} kBenches[] = {
    {"step", BenchStep, CheckStepSides},
    {"inference", BenchInference, CheckInferenceFlags},
    {"kernels", BenchInferenceKernels},
    {"gates", BenchGates},
    {"allreduce", BenchAllReduce, CheckAllReduceWorkers},
    {"hooks", BenchHooks, CheckStepWorkers},
    {"overhead", BenchOverhead},
    {"trainer", BenchTrainer},
    {"data", BenchData},
    {"serving", BenchServing, CheckServingFlags},
    {"compile", BenchCompile},
    {"graphs", BenchGraphs},
    {"startup", BenchStartup},
    {"memory", BenchMemory},
    {"world_sizes", BenchWorldSizes},
    {"peer", TrainAsPeer},
    {"allreduce_peer", AllReduceAsPeer},
    {"recovery_peer", RecoverAsPeer},
};

// Checks the flags before anything is measured.
absl::Status CheckFlags() {
  MF_RETURN_IF_ERROR(CheckStepFlags());
  MF_RETURN_IF_ERROR(CheckAllReduceFlags());
  MF_RETURN_IF_ERROR(CheckGraphsFlag());
  MF_RETURN_IF_ERROR(CheckGatesFlags());
  MF_RETURN_IF_ERROR(CheckWorldSizesFlags());
  MF_RETURN_IF_ERROR(CheckOutputFlag("json", absl::GetFlag(FLAGS_json)));
  const absl::Status strategy =
      MirroredStrategy::Create({.num_cpu_replicas = absl::GetFlag(FLAGS_replicas).value_or(2)})
          .status();
  return Annotate(strategy, "--replicas");
}

// Measures the graph file --graph.
absl::Status RunOnGraph(absl::string_view bench, ExitCode* code) {
  if (bench != "step") {
    return absl::InvalidArgumentError(
        absl::StrCat("--graph: not supported by bench ", bench, "; expected bench step"));
  }
  MF_RETURN_IF_ERROR(CheckGraphStepFlags());
  Report report;
  MF_RETURN_IF_ERROR(BenchGraphStep(&report, code));
  return report.Write();
}

}  // namespace

absl::Status Bench(const std::vector<std::string>& args, ExitCode* code) {
  *code = kExitUsage;
  MF_RETURN_IF_ERROR(CheckFlags());
  const std::string what = args.size() == 1 ? args[0] : "";
  std::string names;
  for (const auto& bench : kBenches) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", bench.name);
    if (what != bench.name) continue;
    if (!absl::GetFlag(FLAGS_graph).empty()) return RunOnGraph(what, code);
    MF_RETURN_IF_ERROR(CheckNoGraphStepFlags());
    if (bench.check != nullptr) MF_RETURN_IF_ERROR(bench.check());
    *code = kExitBadInput;
    Report report = what == "gates" ? GatesReport() : Report();
    MF_RETURN_IF_ERROR(Annotate(bench.run(&report), absl::StrCat("bench ", what)));
    return report.Write();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("bench: unknown benchmark; expected one of ", names, ", got '", what, "'"));
}

}  // namespace mirrorflow
