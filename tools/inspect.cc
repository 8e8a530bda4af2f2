// SPDX-License-Identifier: Apache-2.0
#include "tools/inspect.h"

#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "absl/flags/flag.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "framework/compiler/plan/plan_state.h"
#include "framework/core/file.h"
#include "framework/core/status.h"
#include "framework/graph/graph_def.h"
#include "framework/graph/graph_file.h"
#include "framework/graph/text_form.h"
#include "mirrorflow.h"
#include "ops/registry.h"
#include "tools/asked_step.h"
#include "tools/dot.h"
#include "tools/graph_flags.h"
#include "train/variable.h"

ABSL_FLAG(int64_t, global_batch_size, 128,
          "inspect: rows of the feeds whose leading dimension is open");
ABSL_FLAG(std::optional<int>, replicas, std::nullopt,
          "CPU replicas; if not given, inspect, explain and bench take 2 and run takes one device");

ABSL_FLAG(
    std::string, pass, "",
    "inspect: print the graph, or what is known of the plan of replica 0, before and after this "
    "compiler pass");
ABSL_FLAG(
    std::string, output, "",
    "inspect: write the graph to this file, in the form that its name says (.pb, .pbtxt, .txt, "
    ".dot); with --replicas the step as a graph of one device, for --global_batch_size rows, that "
    "has a copy of each node for each replica");

namespace mirrorflow {
namespace {

constexpr int kShownElements = 8;

void PrintNodes(const Graph& graph) {
  std::map<std::string, int> by_op;
  int64_t parameters = 0, state = 0;
  for (const Node* node : graph.Nodes()) {
    ++by_op[node->op().name];
    if (node->op().role != OpRole::kVariable) continue;
    const Shape& shape = node->attr<Shape>("shape");
    if (!shape.IsFullyDefined()) continue;
    (node->has_attr(kNotTrainableAttr) ? state : parameters) += shape.num_elements();
  }
  std::printf("\nnodes: %d\n", graph.num_nodes());
  for (const auto& [op, count] : by_op) std::printf("  %-40s %d\n", op.c_str(), count);
  std::printf("parameters: %lld, elements of other variables: %lld\n",
              static_cast<long long>(parameters), static_cast<long long>(state));
}

void PrintShardings(const Compilation& c) {
  std::map<std::string, int> counts;
  for (const Node* node : c.graph.Nodes()) {
    for (int i = 0; i < node->num_outputs(); ++i) {
      if (node->output_dtype(i) == DT_RESOURCE) continue;
      ++counts[ShardingToString(c.shardings.at(node->output(i)))];
    }
  }
  std::printf("shardings:\n");
  for (const auto& [sharding, count] : counts) std::printf("  %-40s %d\n", sharding.c_str(), count);
  for (const Node* node : c.graph.Nodes()) {
    if (!node->op().gathers_because.empty() && node->op().role == OpRole::kNone &&
        node->op().sharding == nullptr && !node->op().has(kStateful)) {
      std::printf("  gathers its inputs: %s(%s), because %s\n", node->op().name.c_str(),
                  node->name().c_str(), node->op().gathers_because.c_str());
    }
  }
}

void PrintCollectives(const Plan& plan) {
  std::printf("collectives: %d\n", static_cast<int>(plan.collectives.size()));
  for (size_t i = 0; i < plan.collectives.size(); ++i) {
    const PlannedCollective& c = plan.collectives[i];
    std::printf("  %2d %-14s %-40s %lld bytes\n", static_cast<int>(i),
                std::string(c.kind()).c_str(), c.name.c_str(), static_cast<long long>(c.bytes()));
  }
}

void PrintMemory(const Plan& plan, const VariableLayout& layout) {
  std::printf("memory of replica 0:\n");
  std::printf("  %-40s %lld bytes, %lld values, live peak %lld bytes\n", "arena",
              static_cast<long long>(plan.arena_bytes),
              static_cast<long long>(plan.num_arena_values),
              static_cast<long long>(plan.live_bytes));
  std::printf("  %-40s %lld bytes\n", "constants", static_cast<long long>(plan.constants_bytes));
  for (const LayoutRegion& region : layout.regions()) {
    std::printf("  %-40s %lld bytes\n", region.name.c_str(), static_cast<long long>(region.bytes));
  }
}

struct Compiled {
  std::unique_ptr<Session> session;
  StepPlans plans;
};

// The step, compiled.
absl::StatusOr<Compiled> Compile(const Graph& graph, const AskedStep& step,
                                 const Strategy& strategy, int64_t batch_size) {
  Compiled compiled;
  MF_ASSIGN_OR_RETURN(const AskedStep whole, WithFeeds(graph, step, batch_size));
  MF_ASSIGN_OR_RETURN(compiled.session, strategy.NewSession(graph));
  MF_ASSIGN_OR_RETURN(Step prepared,
                      compiled.session->Prepare(whole.feeds, whole.fetches, whole.targets));
  MF_ASSIGN_OR_RETURN(compiled.plans, prepared.Compile(whole.shapes));
  return compiled;
}

absl::Status PrintCompiled(const Graph& graph, const AskedStep& step, const Strategy& strategy,
                           int64_t batch_size) {
  MF_ASSIGN_OR_RETURN(const Compiled compiled, Compile(graph, step, strategy, batch_size));
  const StepPlans& plans = compiled.plans;
  std::printf("\ncompiled for %d replicas, global batch %lld, program %016llx\n",
              strategy.num_replicas_in_sync(), static_cast<long long>(batch_size),
              static_cast<unsigned long long>(plans.program->Fingerprint()));
  PrintShardings(plans.program->state);
  PrintCollectives(*plans.plans[0]);
  PrintMemory(*plans.plans[0], compiled.session->layout());
  return absl::OkStatus();
}

// A pass by the name of its class or of its file: ScheduleNodes is schedule_nodes.
bool IsCalled(absl::string_view pass, absl::string_view name) {
  return absl::AsciiStrToLower(absl::StrReplaceAll(pass, {{"_", ""}})) ==
         absl::AsciiStrToLower(absl::StrReplaceAll(name, {{"_", ""}}));
}

// Keeps what the compiler works on as it is before and after one pass.
struct PassObserver {
  std::string pass;
  std::string before = "";
  std::string after = "";
  std::set<std::string> passes = {};  // that have run
  std::string first = "";             // of all of them

  static void Observe(absl::string_view pass, const Compilation& c, bool after, void* self) {
    auto& observer = *static_cast<PassObserver*>(self);
    if (observer.passes.empty()) observer.first = std::string(pass);
    observer.passes.insert(std::string(pass));
    // Initial values are compiled before the step, which counts.
    if (!after && pass == observer.first) observer.before = observer.after = "";
    if (!IsCalled(pass, observer.pass)) return;
    observer.pass = std::string(pass);
    const auto* const plan = dynamic_cast<const PlanState*>(&c);
    if (plan != nullptr && !observer.after.empty()) return;  // the plan of another replica
    std::string text =
        plan != nullptr
            ? plan->ToString(kShownElements)
            : GraphToText(c.graph, {.omit_defaults = true, .max_elements = kShownElements});
    // A pass may run several times: from before the first to after the last.
    if (after) {
      observer.after = std::move(text);
    } else if (observer.before.empty()) {
      observer.before = std::move(text);
    }
  }

  absl::Status Print() const {
    if (passes.count(pass) == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--pass: unknown; expected one of ", absl::StrJoin(passes, ", "), ", got '", pass, "'"));
    }
    std::printf("before %s:\n%s\nafter %s:\n%s", pass.c_str(), before.c_str(), pass.c_str(),
                after.c_str());
    return absl::OkStatus();
  }
};

absl::Status Convert(const Graph& graph, const std::string& path) {
  if (absl::EndsWith(path, ".dot")) return WriteFileAtomically(path, {GraphToDot(graph)});
  return WriteGraphFile(graph, path);
}

// The graph with the replicas of its step written out.
absl::Status WriteReplicated(const Graph& graph, const AskedStep& asked, int replicas,
                             int64_t batch_size, const std::string& path) {
  MF_ASSIGN_OR_RETURN(const AskedStep step, WithFeeds(graph, asked, batch_size));
  MF_ASSIGN_OR_RETURN(const Graph replicated, ReplicatedGraph(graph, {.feeds = step.feeds,
                                                                      .feed_shapes = step.shapes,
                                                                      .fetches = step.fetches,
                                                                      .targets = step.targets,
                                                                      .num_replicas = replicas}));
  if (!absl::EndsWith(path, ".txt") || absl::EndsWith(path, ".pb.txt")) {
    return Convert(replicated, path);
  }
  // The text form knows no calls of functions: their bodies take their place, as in reading.
  MF_ASSIGN_OR_RETURN(const proto::GraphDef def, ToGraphDef(replicated));
  MF_ASSIGN_OR_RETURN(const Graph inlined, FromGraphDef(def, AllOps()));
  return Convert(inlined, path);
}

}  // namespace

absl::Status Inspect(const std::vector<std::string>& args, ExitCode* code) {
  *code = kExitUsage;
  const int64_t batch_size = absl::GetFlag(FLAGS_global_batch_size);
  MF_RETURN_IF_ERROR(CheckFlagRange("global_batch_size", batch_size, 1));
  PassObserver observer{.pass = absl::GetFlag(FLAGS_pass)};
  MF_RETURN_IF_ERROR(CheckGraphFlags());
  MirroredStrategy::Options options{.num_cpu_replicas = absl::GetFlag(FLAGS_replicas).value_or(2),
                                    .max_bytes = MaxBytesOfFlags()};
  if (!observer.pass.empty()) {
    options.compile.observer = PassObserver::Observe;
    options.compile.observer_arg = &observer;
  }
  const auto strategy = MirroredStrategy::Create(options);
  if (!strategy.ok()) return Annotate(strategy.status(), "--replicas");
  if (args.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("inspect: wrong arguments; expected one graph file, got ", args.size()));
  }
  const std::string output = absl::GetFlag(FLAGS_output);
  MF_RETURN_IF_ERROR(CheckOutputFlag("output", output));
  *code = kExitBadInput;
  MF_ASSIGN_OR_RETURN(const Graph graph, ReadGraphFile(args[0], AllOps(), GraphLimitsOfFlags()));
  *code = kExitUsage;
  MF_ASSIGN_OR_RETURN(const AskedStep step, StepOfFlags(graph));
  *code = kExitBadInput;
  if (!output.empty()) {
    const std::optional<int> replicas = absl::GetFlag(FLAGS_replicas);
    if (!replicas.has_value()) return Convert(graph, output);
    return Annotate(WriteReplicated(graph, step, *replicas, batch_size, output), args[0]);
  }
  if (!observer.pass.empty()) {
    MF_RETURN_IF_ERROR(Annotate(Compile(graph, step, **strategy, batch_size).status(), args[0]));
    *code = kExitUsage;
    return observer.Print();
  }
  std::printf("%s",
              GraphToText(graph, {.omit_defaults = true, .max_elements = kShownElements}).c_str());
  PrintNodes(graph);
  return Annotate(PrintCompiled(graph, step, **strategy, batch_size), args[0]);
}

}  // namespace mirrorflow
