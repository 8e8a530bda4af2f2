// SPDX-License-Identifier: Apache-2.0
#include "tools/inspect.h"

#include <cstdio>
#include <map>
#include <optional>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "framework/graph/graph_file.h"
#include "framework/graph/text_form.h"
#include "mirrorflow.h"
#include "ops/registry.h"
#include "train/variable.h"

ABSL_FLAG(int64_t, global_batch_size, 128,
          "inspect: rows of the feeds whose leading dimension is open");
ABSL_FLAG(std::optional<int>, replicas, std::nullopt,
          "CPU replicas; if not given, inspect and bench take 2 and run takes one device");

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

// All placeholders fed; what nobody uses is fetched, or run if it has no value.
struct WholeGraph {
  std::vector<Output> feeds;
  std::vector<Shape> shapes;
  std::vector<Output> fetches;
  std::vector<Operation> targets;
};

absl::StatusOr<WholeGraph> StepOf(const Graph& graph, int64_t batch_size) {
  // Initial values are no part of a step.
  absl::flat_hash_set<std::string> initial;
  for (const Node* node : graph.Nodes()) {
    if (node->has_attr("_initializer")) initial.insert(node->attr<std::string>("_initializer"));
  }
  WholeGraph whole;
  for (Node* node : graph.Nodes()) {
    if (node->op().role == OpRole::kPlaceholder) {
      Shape shape = node->attr<Shape>("shape");
      if (shape.unknown_rank()) {
        return absl::InvalidArgumentError(absl::StrCat(
            node->name(), ": the shape of this placeholder is unknown; cannot choose a feed"));
      }
      for (int d = 0; d < shape.rank(); ++d) {
        if (shape.dim(d) == kUnknownDim) shape.set_dim(d, d == 0 ? batch_size : 1);
      }
      whole.feeds.push_back(node->output(0));
      whole.shapes.push_back(shape);
    } else if (node->uses().empty() && !initial.contains(node->name())) {
      if (node->num_outputs() == 0) {
        whole.targets.push_back({node});
      } else if (node->output_dtype(0) != DT_RESOURCE) {
        whole.fetches.push_back(node->output(0));
      }
    }
  }
  return whole;
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
  for (const PlannedCollective& c : plan.collectives) {
    const int64_t bytes = c.count * static_cast<int64_t>(DataTypeSize(c.dtype));
    std::printf("  %2d %-14s %-40s %lld bytes\n", c.sequence,
                std::string(CollectiveKindName(c.kind)).c_str(), c.name.c_str(),
                static_cast<long long>(bytes));
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

// The step that runs everything, compiled.
absl::Status PrintCompiled(const Graph& graph, const Strategy& strategy, int64_t batch_size) {
  MF_ASSIGN_OR_RETURN(const WholeGraph whole, StepOf(graph, batch_size));
  MF_ASSIGN_OR_RETURN(auto session, strategy.NewSession(graph));
  MF_ASSIGN_OR_RETURN(Step step, session->Prepare(whole.feeds, whole.fetches, whole.targets));
  MF_ASSIGN_OR_RETURN(const StepPlans plans, step.Compile(whole.shapes));
  std::printf("\ncompiled for %d replicas, global batch %lld, program %016llx\n",
              strategy.num_replicas_in_sync(), static_cast<long long>(batch_size),
              static_cast<unsigned long long>(plans.program->Fingerprint()));
  PrintShardings(plans.program->state);
  PrintCollectives(*plans.plans[0]);
  PrintMemory(*plans.plans[0], session->layout());
  return absl::OkStatus();
}

}  // namespace

absl::Status Inspect(const std::vector<std::string>& args, ExitCode* code) {
  *code = kExitUsage;
  const int64_t batch_size = absl::GetFlag(FLAGS_global_batch_size);
  MF_RETURN_IF_ERROR(CheckFlagRange("global_batch_size", batch_size, 1));
  const auto strategy =
      MirroredStrategy::Create({.num_cpu_replicas = absl::GetFlag(FLAGS_replicas).value_or(2)});
  if (!strategy.ok()) return Annotate(strategy.status(), "--replicas");
  if (args.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("inspect: wrong arguments; expected one graph file, got ", args.size()));
  }
  *code = kExitBadInput;
  MF_ASSIGN_OR_RETURN(const Graph graph, ReadGraphFile(args[0], AllOps()));
  std::printf("%s",
              GraphToText(graph, {.omit_defaults = true, .max_elements = kShownElements}).c_str());
  PrintNodes(graph);
  return Annotate(PrintCompiled(graph, **strategy, batch_size), args[0]);
}

}  // namespace mirrorflow
