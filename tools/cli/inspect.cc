// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "absl/flags/flag.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "framework/core/file.h"
#include "framework/core/status.h"
#include "framework/core/terminal.h"
#include "framework/graph/graph_def.h"
#include "framework/graph/graph_file.h"
#include "framework/graph/text_form.h"
#include "mirrorflow_debug.h"
#include "ops/registry.h"
#include "tools/cli/commands.h"
#include "tools/cli/graph_summary.h"
#include "tools/flags/graph_flags.h"
#include "tools/flags/step_flags.h"
#include "tools/flags/step_selection.h"

ABSL_FLAG(bool, all, false,
          "inspect: also print nodes, ops, shardings, collectives and memory regions");
ABSL_FLAG(int64_t, global_batch_size, 128,
          "inspect: number of rows for feeds with an unknown leading dimension");

ABSL_FLAG(std::string, pass, "",
          "inspect: print the graph, or replica 0's unfinished plan, before and after this "
          "compiler pass");
ABSL_FLAG(
    std::string, output, "",
    "inspect: write the graph to this file, in the format of its extension (.pb, .pbtxt, .txt, "
    ".dot); with --replicas, write the step for --global_batch_size rows as a graph for one device "
    "that contains the nodes of every replica");

namespace mirrorflow {
namespace {

constexpr int kShownElements = 8;
constexpr size_t kShownLayers = 30;

// Prints text. Every line of it ends with \n.
void PrintLines(absl::string_view text) {
  for (const absl::string_view line : absl::StrSplit(absl::StripSuffix(text, "\n"), '\n')) {
    PrintLine(line);
  }
}

void PrintOps(const Graph& graph) {
  std::map<std::string, int> by_op;
  for (const Node* node : graph.Nodes()) ++by_op[node->op().name];
  std::printf("\nnodes: %d\n", graph.num_nodes());
  for (const auto& [op, count] : by_op) PrintLine(absl::StrFormat("  %-40s %d", op, count));
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
  for (const auto& [sharding, count] : counts) {
    PrintLine(absl::StrFormat("  %-40s %d", sharding, count));
  }
  for (const Node* node : c.graph.Nodes()) {
    if (!node->op().no_sharding_reason.empty() && node->op().role == OpRole::kNone &&
        node->op().sharding == nullptr && !node->op().has(kStateful)) {
      PrintLine(absl::StrCat("  gathers its inputs: ", node->op().name, "(", node->name(),
                             "), because ", node->op().no_sharding_reason));
    }
  }
}

void PrintCollectives(const Plan& plan) {
  std::printf("collectives: %d\n", static_cast<int>(plan.collectives.size()));
  for (size_t i = 0; i < plan.collectives.size(); ++i) {
    const PlannedCollective& c = plan.collectives[i];
    PrintLine(absl::StrFormat("  %2d %-14s %-40s %d bytes", i, c.kind(), c.name, c.bytes()));
  }
}

void PrintMemory(const Plan& plan, const VariableLayout& layout) {
  std::printf("memory of replica 0:\n");
  PrintLine(absl::StrFormat("  %-40s %d bytes, %d values, live peak %d bytes", "arena",
                            plan.arena_bytes, plan.num_arena_values, plan.live_bytes));
  PrintLine(absl::StrFormat("  %-40s %d bytes", "constants", plan.constants_bytes));
  PrintLine(absl::StrFormat("  %-40s %d bytes, %d in the layouts of kernels", "forms",
                            plan.form_bytes(), plan.forms.size()));
  for (const LayoutRegion& region : layout.regions()) {
    PrintLine(absl::StrFormat("  %-40s %d bytes", region.name, region.bytes));
  }
}

struct Compiled {
  std::unique_ptr<Session> session;
  StepPlans plans;
};

// Compiles the step in a new session.
absl::StatusOr<Compiled> Compile(const Graph& graph, const StepSelection& step,
                                 const Strategy& strategy, int64_t batch_size) {
  Compiled compiled;
  MF_ASSIGN_OR_RETURN(const StepSelection whole, WithFeeds(graph, step, batch_size));
  MF_ASSIGN_OR_RETURN(compiled.session, strategy.NewSession(graph));
  MF_ASSIGN_OR_RETURN(Step prepared,
                      compiled.session->Prepare(whole.feeds, whole.fetches, whole.targets));
  MF_ASSIGN_OR_RETURN(compiled.plans, CompileStep(prepared, whole.shapes));
  return compiled;
}

double Megabytes(int64_t bytes) { return static_cast<double>(bytes) / 1e6; }

// Prints one line about memory and one about collectives.
void PrintTotals(const Plan& plan, const VariableLayout& layout) {
  int64_t variables = 0, sent = 0;
  for (const LayoutRegion& region : layout.regions()) variables += region.bytes;
  for (const PlannedCollective& c : plan.collectives) sent += c.bytes();
  std::printf(
      "memory per replica: %.2f MB = %.2f variables and gradients + %.2f intermediate values + "
      "%.2f constants + %.2f forms\n",
      Megabytes(variables + plan.arena_bytes + plan.constants_bytes + plan.form_bytes()),
      Megabytes(variables), Megabytes(plan.arena_bytes), Megabytes(plan.constants_bytes),
      Megabytes(plan.form_bytes()));
  std::printf("collectives: %d per step, %.2f MB\n", static_cast<int>(plan.collectives.size()),
              Megabytes(sent));
}

absl::Status PrintCompiled(const Graph& graph, const StepSelection& step, const Strategy& strategy,
                           int64_t batch_size, bool all) {
  MF_ASSIGN_OR_RETURN(const Compiled compiled, Compile(graph, step, strategy, batch_size));
  const StepPlans& plans = compiled.plans;
  const VariableLayout& layout = compiled.session->layout();
  std::printf("\ncompiled for %d replicas, global batch %lld, program %016llx\n",
              strategy.num_replicas_in_sync(), static_cast<long long>(batch_size),
              static_cast<unsigned long long>(plans.program->Fingerprint()));
  PrintTotals(*plans.plans[0], layout);
  if (!all) {
    std::printf("use --all to list nodes, shardings, collectives and memory regions\n");
    return absl::OkStatus();
  }
  PrintShardings(plans.program->state);
  PrintCollectives(*plans.plans[0]);
  PrintMemory(*plans.plans[0], layout);
  return absl::OkStatus();
}

// Returns whether `name` is the pass's class or file name: ScheduleNodes or schedule_nodes.
bool IsCalled(absl::string_view pass, absl::string_view name) {
  return absl::AsciiStrToLower(absl::StrReplaceAll(pass, {{"_", ""}})) ==
         absl::AsciiStrToLower(absl::StrReplaceAll(name, {{"_", ""}}));
}

// Records the compiler's state before and after one pass.
class RecordPass final : public PassObserver {
 public:
  explicit RecordPass(std::string pass) : pass_(std::move(pass)) {}
  bool is_asked_for() const { return !pass_.empty(); }

  void BeforePass(absl::string_view pass, const Compilation& c) override {
    if (passes_.empty()) first_ = std::string(pass);
    passes_.insert(std::string(pass));
    // Discard the record of the initialisers, which are compiled before the step.
    if (pass == first_) before_ = after_ = "";
    // A pass can run several times: record the state before the first run and after the last one.
    if (Matches(pass, c) && before_.empty()) before_ = c.ToString(kShownElements);
  }
  void AfterPass(absl::string_view pass, const Compilation& c) override {
    if (!Matches(pass, c)) return;
    pass_ = std::string(pass);
    after_ = c.ToString(kShownElements);
  }

  absl::Status Print() const {
    const std::vector<absl::string_view> known(passes_.begin(), passes_.end());
    MF_RETURN_IF_ERROR(CheckChoice("pass", pass_, known));
    PrintLines(absl::StrCat("before ", pass_, ":\n", before_, "\nafter ", pass_, ":\n", after_));
    return absl::OkStatus();
  }

 private:
  // Returns whether to record this run of the pass. Passes that make plans run once per replica,
  // and only the first replica's plan is recorded.
  bool Matches(absl::string_view pass, const Compilation& c) const {
    return IsCalled(pass, pass_) && (c.device_type.empty() || after_.empty());
  }

  std::string pass_;
  std::string before_, after_;
  std::set<std::string> passes_;  // every pass that has run
  std::string first_;             // the first pass to run
};

// Escapes the only two characters that are special in a quoted DOT string.
std::string EscapedForDot(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}});
}

std::string OutputShapes(const Graph& graph, const Node& node) {
  std::string text;
  for (int i = 0; i < node.num_outputs(); ++i) {
    absl::StrAppend(&text, i > 0 ? ", " : "", DataTypeName(node.output_dtype(i)),
                    graph.values().shape(node.output(i)).ToString());
  }
  return text;
}

// Returns the graph in DOT, Graphviz' language: a box for each node with its op, name and shapes,
// an arrow for each data input, and a dashed arrow for each control input.
std::string GraphToDot(const Graph& graph) {
  std::string dot = "digraph {\n  node [shape=box]\n";
  for (const Node* node : graph.Nodes()) {
    const std::string name = absl::StrCat("\"", EscapedForDot(node->name()), "\"");
    absl::StrAppend(&dot, "  ", name, " [label=\"", EscapedForDot(node->op().name), "\\n",
                    EscapedForDot(node->name()), "\\n", OutputShapes(graph, *node), "\"]\n");
    for (const Output& in : node->inputs()) {
      absl::StrAppend(&dot, "  \"", EscapedForDot(in.node->name()), "\" -> ", name, "\n");
    }
    for (const Node* control : node->control_inputs()) {
      absl::StrAppend(&dot, "  \"", EscapedForDot(control->name()), "\" -> ", name,
                      " [style=dashed]\n");
    }
  }
  return dot + "}\n";
}

absl::Status Convert(const Graph& graph, const std::string& path) {
  if (absl::EndsWith(path, ".dot")) return WriteFileAtomically(path, {GraphToDot(graph)});
  return WriteGraphFile(graph, path);
}

// Writes the step as a single graph that contains the nodes of all replicas.
absl::Status WriteReplicated(const Graph& graph, const StepSelection& selection, int replicas,
                             int64_t batch_size, const std::string& path) {
  MF_ASSIGN_OR_RETURN(const StepSelection step, WithFeeds(graph, selection, batch_size));
  MF_ASSIGN_OR_RETURN(const Graph replicated, ReplicatedGraph(graph, {.feeds = step.feeds,
                                                                      .feed_shapes = step.shapes,
                                                                      .fetches = step.fetches,
                                                                      .targets = step.targets,
                                                                      .num_replicas = replicas}));
  if (!absl::EndsWith(path, ".txt") || absl::EndsWith(path, ".pb.txt")) {
    return Convert(replicated, path);
  }
  // The text form cannot express function calls, so inline them, as ReadGraphFile does.
  MF_ASSIGN_OR_RETURN(const proto::GraphDef def, ToGraphDef(replicated));
  MF_ASSIGN_OR_RETURN(const Graph inlined, FromGraphDef(def, AllOps()));
  return Convert(inlined, path);
}

}  // namespace

absl::Status Inspect(const std::vector<std::string>& args, ExitCode* code) {
  *code = kExitUsage;
  const int64_t batch_size = absl::GetFlag(FLAGS_global_batch_size);
  MF_RETURN_IF_ERROR(CheckFlagRange("global_batch_size", batch_size, 1));
  RecordPass observer(absl::GetFlag(FLAGS_pass));
  MF_RETURN_IF_ERROR(CheckGraphFlags());
  MirroredStrategy::Options options{.num_cpu_replicas = absl::GetFlag(FLAGS_replicas).value_or(2),
                                    .max_bytes = MaxBytesOfFlags()};
  if (observer.is_asked_for()) options.compile.observer = &observer;
  MF_ASSIGN_OR_RETURN(const auto strategy,
                      Annotate(MirroredStrategy::Create(options), "--replicas"));
  MF_RETURN_IF_ERROR(CheckArguments("inspect", args, 1, 1, "one graph file"));
  const std::string output = absl::GetFlag(FLAGS_output);
  MF_RETURN_IF_ERROR(CheckOutputFlag("output", output));
  *code = kExitBadInput;
  MF_ASSIGN_OR_RETURN(const Graph graph, ReadGraphFile(args[0], AllOps(), GraphLimitsOfFlags()));
  *code = kExitUsage;
  MF_ASSIGN_OR_RETURN(const StepSelection step, SelectStepFromFlags(graph));
  *code = kExitBadInput;
  if (!output.empty()) {
    const std::optional<int> replicas = absl::GetFlag(FLAGS_replicas);
    if (!replicas.has_value()) return Convert(graph, output);
    return Annotate(WriteReplicated(graph, step, *replicas, batch_size, output), args[0]);
  }
  if (observer.is_asked_for()) {
    MF_RETURN_IF_ERROR(Annotate(Compile(graph, step, *strategy, batch_size).status(), args[0]));
    *code = kExitUsage;
    return observer.Print();
  }
  const bool all = absl::GetFlag(FLAGS_all);
  if (all) {
    PrintLines(GraphToText(graph, {.omit_defaults = true, .max_elements = kShownElements}));
    PrintOps(graph);
    std::printf("\n");
  }
  std::printf("%d nodes\n", graph.num_nodes());
  PrintLines(ToString(Summarize(graph), all ? graph.num_nodes() : kShownLayers));
  return Annotate(PrintCompiled(graph, step, *strategy, batch_size, all), args[0]);
}

}  // namespace mirrorflow
