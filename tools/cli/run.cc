// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <optional>

#include "absl/cleanup/cleanup.h"
#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/core/status.h"
#include "framework/core/terminal.h"
#include "framework/graph/graph_endpoints.h"
#include "framework/graph/graph_file.h"
#include "framework/graph/shape_inference.h"
#include "framework/session/session.h"
#include "framework/workers/connection.h"
#include "mirrorflow_debug.h"
#include "ops/registry.h"
#include "tools/cli/commands.h"
#include "tools/flags/cluster_flags.h"
#include "tools/flags/compute_flags.h"
#include "tools/flags/graph_flags.h"
#include "tools/flags/step_flags.h"
#include "tools/flags/step_inputs.h"
#include "tools/flags/step_selection.h"
#include "train/checkpoint/variables_file.h"
#include "train/formats/npy.h"

ABSL_FLAG(int64_t, steps, 1, "run: number of steps; prints or writes the fetches of the last step");
ABSL_FLAG(std::string, save_variables, "",
          "run: write the variables to this .safetensors file at the end");
ABSL_FLAG(std::string, device, "CPU:0",
          "run: the device of a single replica: CPU, GPU, GPU:0, GPU:1, …");
ABSL_FLAG(int, logical_gpus, 0, "run: number of replicas that share GPU:0");
ABSL_FLAG(uint64_t, seed, 0, "run: seed of random initial values and random ops");

namespace mirrorflow {
namespace {

constexpr int kPrintedElements = 100;
constexpr int64_t kTracedSteps = 3;

// Creates the strategy that the flags describe. On error, `*code` is the exit code.
absl::StatusOr<std::unique_ptr<Strategy>> MakeStrategy(const std::optional<Cluster>& cluster,
                                                       ExitCode* code) {
  MF_ASSIGN_OR_RETURN(const CompileOptions compile, CompileOptionsOfFlags());
  MF_ASSIGN_OR_RETURN(const int64_t bucket_bytes, BucketBytesOfFlags());
  const uint64_t seed = absl::GetFlag(FLAGS_seed);
  const std::optional<int> replicas = absl::GetFlag(FLAGS_replicas);
  const std::optional<int> threads = absl::GetFlag(FLAGS_threads_per_replica);
  const int logical_gpus = absl::GetFlag(FLAGS_logical_gpus);
  if (!replicas.has_value() && logical_gpus == 0 && !cluster.has_value()) {
    return Annotate(OneDeviceStrategy::Create({.device = absl::GetFlag(FLAGS_device),
                                               .threads_per_replica = threads.value_or(1),
                                               .seed = seed,
                                               .max_bytes = MaxBytesOfFlags(),
                                               .compile = compile}),
                    "--device");
  }
  if (absl::GetFlag(FLAGS_device) != "CPU:0") {
    return absl::InvalidArgumentError(
        "--device: cannot be combined with --replicas or --logical_gpus; expected only one of "
        "them");
  }
  if (replicas.has_value() && logical_gpus != 0) {
    return absl::InvalidArgumentError(
        "--logical_gpus: cannot be combined with --replicas (CPUs); expected only one of them");
  }
  const MirroredStrategy::Options options = {
      .devices = std::vector<std::string>(logical_gpus, "GPU:0"),
      .num_cpu_replicas = replicas,
      .threads_per_replica = threads,
      .bucket_bytes = bucket_bytes,
      .seed = seed,
      .max_bytes = MaxBytesOfFlags(),
      .compile = compile};
  if (cluster.has_value()) return StrategyOfCluster(*cluster, options, code);
  return Annotate(MirroredStrategy::Create(options),
                  replicas.has_value() ? "--replicas" : "--logical_gpus");
}

void PrintEndpoint(absl::string_view kind, absl::string_view name, absl::string_view what) {
  PrintLine(absl::StrFormat("%-10s %-40s %s", kind, name, what));
}

void PrintEndpoints(const Graph& graph) {
  auto type_of = [&](const Output& output) {
    return absl::StrCat(DataTypeName(output.dtype()), graph.values().shape(output).ToString());
  };
  const GraphEndpoints endpoints = FindGraphEndpoints(graph);
  for (const Output& feed : endpoints.feeds) {
    PrintEndpoint("feed", feed.node->name(), type_of(feed));
  }
  for (const Node* node : endpoints.variables) {
    PrintEndpoint("variable", VariableName(*node),
                  absl::StrCat(DataTypeName(node->attr<DataType>("dtype")),
                               node->attr<Shape>("shape").ToString()));
  }
  for (const Output& fetch : endpoints.fetches) {
    PrintEndpoint("fetch", fetch.ToString(), type_of(fetch));
  }
  for (const Operation& target : endpoints.targets) {
    PrintEndpoint("target", target.node->name(), target.node->op().name);
  }
  for (const Node* node : endpoints.unknown) {
    PrintEndpoint("unknown op", node->name(), node->op().name);
  }
}

// Prints or writes the fetches that this worker outputs: those with {worker} in the file name and,
// on worker 0, all others.
absl::Status OutputFetches(const std::vector<NamedFile>& fetches, const StepOutputs& outputs,
                           const Strategy& strategy) {
  for (size_t i = 0; i < fetches.size(); ++i) {
    const NamedFile& fetch = fetches[i];
    if (!outputs[i].has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          fetch.flag, ": differs between replicas; expected the same value on all replicas"));
    }
    if (!fetch.path.empty()) {
      const std::string path = PathOfWorker(fetch.path, strategy);
      if (!path.empty()) MF_RETURN_IF_ERROR(WriteNpy(path, outputs[i]));
    } else if (strategy.worker() == 0) {
      PrintLine(absl::StrCat(fetch.name, " = ", TensorToString(outputs[i], kPrintedElements)));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckFlags(const std::vector<NamedFile>& fetches) {
  if (absl::GetFlag(FLAGS_graph).empty()) {
    return absl::InvalidArgumentError("--graph: missing; expected a graph file");
  }
  MF_RETURN_IF_ERROR(CheckFlagRange("steps", absl::GetFlag(FLAGS_steps), 1));
  MF_RETURN_IF_ERROR(CheckFlagRange("logical_gpus", absl::GetFlag(FLAGS_logical_gpus), 0, 16));
  for (const NamedFile& fetch : fetches) {
    MF_RETURN_IF_ERROR(CheckOutputFlag("fetch", fetch.path));
  }
  MF_RETURN_IF_ERROR(CheckOutputFlag("save_variables", absl::GetFlag(FLAGS_save_variables)));
  return CheckOutputFlag("trace", absl::GetFlag(FLAGS_trace));
}

absl::StatusOr<Graph> ReadGraph() {
  return ReadGraphFile(absl::GetFlag(FLAGS_graph), AllOps(), GraphLimitsOfFlags());
}

// Runs the steps and outputs the fetches. On error, `*code` is the exit code.
absl::Status RunSteps(const Strategy& strategy, std::vector<NamedFile> feeds,
                      std::vector<NamedFile> fetches, ExitCode* code) {
  const std::string path = absl::GetFlag(FLAGS_graph);
  CleanupWatchdog watchdog;
  *code = kExitBadInput;
  MF_ASSIGN_OR_RETURN(const Graph graph, ReadGraph());
  *code = kExitUsage;
  MF_RETURN_IF_ERROR(FindOutputs(graph, feeds));
  MF_RETURN_IF_ERROR(FindOutputs(graph, fetches));
  MF_ASSIGN_OR_RETURN(const std::vector<Operation> targets, TargetsFromFlags(graph));

  *code = kExitBadInput;
  MF_ASSIGN_OR_RETURN(const std::vector<Tensor> values, ReadFeeds(feeds));
  MF_ASSIGN_OR_RETURN(const auto session, Annotate(strategy.NewSession(graph), path));
  auto outputs_of = [](const std::vector<NamedFile>& files) {
    std::vector<Output> outputs;
    for (const NamedFile& file : files) outputs.push_back(file.output);
    return outputs;
  };
  const StepSelection selected{
      .feeds = outputs_of(feeds), .shapes = {}, .fetches = outputs_of(fetches), .targets = targets};
  MF_RETURN_IF_ERROR(LoadVariablesFromFlags(selected, *session));
  MF_ASSIGN_OR_RETURN(
      Step step,
      Annotate(session->Prepare(selected.feeds, selected.fetches, selected.targets), path));
  TraceWriter trace;
  StepOutputs outputs;
  const absl::Cleanup cleanup = [&] { watchdog.Start(strategy, session->connection().failure()); };
  const bool traces = !absl::GetFlag(FLAGS_trace).empty();
  const int64_t steps = absl::GetFlag(FLAGS_steps);
  for (int64_t i = 0; i < steps; ++i) {
    if (traces && i == std::max<int64_t>(steps - kTracedSteps, 0)) {
      MF_RETURN_IF_ERROR(session->TraceTo(&trace));
    }
    absl::StatusOr<StepOutputs> result = step.Run(values);
    if (!result.ok()) return Annotate(result.status(), absl::StrCat(path, ": step ", i));
    outputs = *result;
  }
  MF_RETURN_IF_ERROR(OutputFetches(fetches, outputs, strategy));
  if (traces) {
    MF_RETURN_IF_ERROR(WriteTraceOfWorkers(*session, trace, absl::GetFlag(FLAGS_trace), strategy));
  }
  const std::string file = absl::GetFlag(FLAGS_save_variables);
  return file.empty() ? absl::OkStatus() : SaveVariables(*session, file);
}

}  // namespace

absl::Status Run(const std::vector<std::string>& args, ExitCode* code) {
  *code = kExitUsage;
  MF_RETURN_IF_ERROR(CheckArguments("run", args, 0, 0, "only flags (see --help)"));
  const std::vector<NamedFile> fetches = NamedFiles("fetch", absl::GetFlag(FLAGS_fetch));
  MF_RETURN_IF_ERROR(CheckFlags(fetches));
  MF_ASSIGN_OR_RETURN(const std::vector<NamedFile> feeds, FeedsFromFlags());
  MF_RETURN_IF_ERROR(CheckGraphFlags());
  MF_ASSIGN_OR_RETURN(std::optional<Cluster> cluster, ClusterOfFlags());
  const bool only_lists = fetches.empty() && absl::GetFlag(FLAGS_target).empty();
  if (only_lists) cluster = std::nullopt;  // listing does not involve other workers
  MF_ASSIGN_OR_RETURN(const auto strategy, MakeStrategy(cluster, code));
  if (only_lists) {
    *code = kExitBadInput;
    MF_ASSIGN_OR_RETURN(const Graph graph, ReadGraph());
    PrintEndpoints(graph);
    return absl::OkStatus();
  }
  const absl::Status status = RunSteps(*strategy, feeds, fetches, code);
  *code = ExitCodeOf(status, *strategy, *code);
  return status;
}

}  // namespace mirrorflow
