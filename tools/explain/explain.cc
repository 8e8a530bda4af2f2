// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/explain.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "distribute/cluster/choose_transport.h"
#include "framework/core/file.h"
#include "framework/core/status.h"
#include "kernels/cpu/cpu_device.h"
#include "mirrorflow_debug.h"
#include "tools/bench/graph_case.h"
#include "tools/bench/training_case.h"
#include "tools/explain/explain_report.h"
#include "tools/flags/graph_flags.h"
#include "tools/flags/step_flags.h"

ABSL_FLAG(bool, memory, false, "explain: also show how much memory the step uses, by class");
ABSL_FLAG(int, cores, 0,
          "explain: also predict the step, with the same global batch, on a host with this many "
          "cores, for each way to divide them into replicas and threads");
ABSL_FLAG(int, numa_nodes, 1, "explain --cores: number of NUMA nodes of that host");
ABSL_FLAG(double, memory_gbps, 0,
          "explain --cores: memory bandwidth of a NUMA node, in GB/s; default: this machine's");
ABSL_FLAG(double, cache_mb, 0,
          "explain --cores: last-level cache of a NUMA node, in MB; default: this machine's");

namespace mirrorflow {
namespace {

constexpr double kRoundMs = 40;
constexpr int kRounds = 15;
constexpr absl::Duration kTraceBudget = absl::Milliseconds(400);
constexpr int kShownSteps = 3;  // how many steps the trace file shows

// Returns the topology of the replicas in `e`. Each worker is a memory domain, unless workers share
// memory.
Topology TopologyOf(const Explanation& e) {
  Topology topology;
  for (int worker = 0; worker < e.workers; ++worker) {
    const int domain = e.transport == "shared_memory" ? 0 : worker;
    topology.replicas.resize(topology.replicas.size() + e.replicas,
                             {.worker = worker, .domain = domain});
  }
  return topology;
}

// Adds the prediction for the host that the flags describe.
absl::Status DivideCoresOfFlags(const Step& step, const std::vector<Shape>& feed_shapes,
                                Explanation* e) {
  e->host = {.cores = absl::GetFlag(FLAGS_cores),
             .numa_nodes = absl::GetFlag(FLAGS_numa_nodes),
             .bytes_per_ns = absl::GetFlag(FLAGS_memory_gbps),
             .shared_bytes = static_cast<int64_t>(absl::GetFlag(FLAGS_cache_mb) * 1e6)};
  if (e->host.cores == 0) return absl::OkStatus();
  if (e->host.shared_bytes == 0) e->host.shared_bytes = e->machine.last_level_cache_bytes;
  if (e->host.bytes_per_ns == 0) {
    MF_ASSIGN_OR_RETURN(e->host.bytes_per_ns, MemoryBytesPerNs(NumUsableCores()));
  }
  MF_ASSIGN_OR_RETURN(e->divisions, DivideCores(step, feed_shapes, e->host, e->machine.table));
  return absl::OkStatus();
}

absl::Status CheckHostFlags() {
  constexpr int kMost = 1024;
  const int cores = absl::GetFlag(FLAGS_cores), nodes = absl::GetFlag(FLAGS_numa_nodes);
  MF_RETURN_IF_ERROR(CheckFlagRange("cores", cores, 0, kMost));
  MF_RETURN_IF_ERROR(CheckFlagRange("numa_nodes", nodes, 1, std::max(cores, 1)));
  constexpr double kMostOfNode = 1e6;  // GB/s, or MB
  const std::pair<absl::string_view, double> of_node[] = {
      {"memory_gbps", absl::GetFlag(FLAGS_memory_gbps)},
      {"cache_mb", absl::GetFlag(FLAGS_cache_mb)}};
  for (const auto& [flag, value] : of_node) {
    if (value >= 0 && value <= kMostOfNode) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--", flag, ": out of range; expected 0 to ", kMostOfNode, ", got ", value));
  }
  if (cores > 0 && absl::GetFlag(FLAGS_workers) > 1) {
    return absl::InvalidArgumentError("--cores: cannot be combined with --workers");
  }
  return absl::OkStatus();
}

absl::Status Report(Explanation e, const VariableLayout& layout) {
  if (absl::GetFlag(FLAGS_memory)) e.memory = MemoryOf(*e.plan, layout);
  PrintExplanation(e);
  const std::string path = absl::GetFlag(FLAGS_json);
  return path.empty() ? absl::OkStatus() : WriteFileAtomically(path, {ExplanationJson(e)});
}

// Compiles the step for a cluster, predicts its time, and prints the report.
absl::Status ExplainStepOfWorkers(const ReadyStep& ready, std::vector<Shape> shapes,
                                  Explanation e) {
  const Topology topology = TopologyOf(e);
  const LinkCosts link = LinkCostsOf(*ParseCollectiveKind(e.transport));
  MF_ASSIGN_OR_RETURN(const PlanElsewhere there,
                      CompileStepFor(ready.step, std::move(shapes), {topology, link, e.threads}));
  e.plan = there.plan.get();
  MF_ASSIGN_OR_RETURN(e.machine, Calibrate(e.replicas));
  e.predicted_ns = CostsOf(*e.plan, e.machine.table);
  e.not_run = "use `bench step --workers` to measure it";
  if (topology.num_domains() > 1) {
    e.exchange = PredictExchange(*e.plan, e.predicted_ns, topology, link);
  }
  return Report(std::move(e), *there.layout);
}

// Compiles the step, predicts its time, runs it, and prints the report.
absl::Status ExplainStep(ReadyStep ready, Explanation e) {
  std::vector<Shape> shapes;
  for (const Tensor& feed : ready.feeds) shapes.push_back(feed.shape());
  if (e.workers > 1) return ExplainStepOfWorkers(ready, std::move(shapes), std::move(e));
  MF_ASSIGN_OR_RETURN(const StepPlans plans, CompileStep(ready.step, shapes));
  e.plan = plans.plans[0].get();
  MF_ASSIGN_OR_RETURN(e.machine, Calibrate(e.replicas));
  e.predicted_ns = CostsOf(*e.plan, e.machine.table);
  MF_RETURN_IF_ERROR(DivideCoresOfFlags(ready.step, shapes, &e));

  auto run = [&] { return ready.step.Run(ready.feeds).status(); };
  const absl::StatusOr<Rounds> rounds = MeasureInTurns(
      {MakeSide(run)},
      {.rounds = kRounds, .round_ms = kRoundMs, .canary_threads = e.replicas * e.threads});
  TraceWriter trace;
  if (rounds.ok()) {
    e.measured = TimingOf(*rounds, 0);
    MF_ASSIGN_OR_RETURN(e.fastest_ns, FastestInstructions(*ready.session, ready.step, ready.feeds,
                                                          *e.plan, kTraceBudget));
    MF_RETURN_IF_ERROR(ready.session->TraceTo(&trace));
    for (int i = 0; i < kShownSteps; ++i) MF_RETURN_IF_ERROR(run());
    MF_RETURN_IF_ERROR(ready.session->TraceTo(nullptr));
  } else {
    e.not_run = std::string(rounds.status().message());
  }
  MF_RETURN_IF_ERROR(Report(std::move(e), ready.session->layout()));
  const std::string path = absl::GetFlag(FLAGS_trace);
  return path.empty() ? absl::OkStatus() : trace.WriteFile(path);
}

}  // namespace

absl::Status Explain(const std::vector<std::string>& args, ExitCode* code) {
  *code = kExitUsage;
  MF_RETURN_IF_ERROR(CheckArguments("explain", args, 0, 1, "at most one graph file"));
  Explanation e{.replicas = absl::GetFlag(FLAGS_replicas).value_or(2),
                .threads = absl::GetFlag(FLAGS_threads_per_replica).value_or(1),
                .workers = absl::GetFlag(FLAGS_workers),
                .batch_size = absl::GetFlag(FLAGS_batch_size)};
  MF_RETURN_IF_ERROR(
      CheckFlagRange("batch_size", e.batch_size, 1, std::numeric_limits<int32_t>::max()));
  MF_RETURN_IF_ERROR(CheckGraphFlags());
  MF_RETURN_IF_ERROR(CheckHostFlags());
  MF_RETURN_IF_ERROR(CheckOutputFlag("json", absl::GetFlag(FLAGS_json)));
  MF_RETURN_IF_ERROR(CheckOutputFlag("trace", absl::GetFlag(FLAGS_trace)));
  const std::vector<std::string> without = absl::GetFlag(FLAGS_without);
  MF_RETURN_IF_ERROR(CheckFlagRange("workers", e.workers, 1, 64));
  if (e.workers > 1) {
    e.transport = absl::GetFlag(FLAGS_transport);
    MF_RETURN_IF_ERROR(CheckChoice("transport", e.transport, {"tcp", "ucx", "shared_memory"}));
    MF_RETURN_IF_ERROR(CheckFlagRange("replicas", e.replicas, 1, 64));
  }
  MirroredStrategy::Options options{.num_cpu_replicas = e.workers * e.replicas,
                                    .threads_per_replica = e.threads,
                                    .max_bytes = MaxBytesOfFlags()};
  options.compile.disabled_passes.insert(without.begin(), without.end());
  MF_ASSIGN_OR_RETURN(auto strategy, Annotate(MirroredStrategy::Create(options), "--replicas"));
  if (args.empty()) {
    MF_RETURN_IF_ERROR(CheckNoGraphStepFlags());
    e.name = absl::GetFlag(FLAGS_model);
    const std::string optimizer = absl::GetFlag(FLAGS_optimizer);
    const std::string hook = absl::GetFlag(FLAGS_hook);
    MF_RETURN_IF_ERROR(CheckTraining(*strategy, e.name, optimizer, hook));
    *code = kExitBadInput;
    MF_ASSIGN_OR_RETURN(ReadyStep t, PrepareTraining({.model = e.name,
                                                      .batch_size = e.batch_size,
                                                      .replicas = e.replicas,
                                                      .threads_per_replica = e.threads,
                                                      .without = without,
                                                      .optimizer = optimizer,
                                                      .hook = hook,
                                                      .workers = e.workers}));
    return Annotate(ExplainStep(std::move(t), std::move(e)), "--model");
  }
  e.name = args[0];
  MF_ASSIGN_OR_RETURN(const GraphCase graph,
                      ReadGraphCase(args[0], e.batch_size * e.workers * e.replicas, code));
  MF_ASSIGN_OR_RETURN(ReadyStep ready, Annotate(PrepareGraph(graph, std::move(strategy)), args[0]));
  return Annotate(ExplainStep(std::move(ready), std::move(e)), args[0]);
}

}  // namespace mirrorflow
