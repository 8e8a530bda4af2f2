// SPDX-License-Identifier: Apache-2.0
#include "framework/session/initialize_variables.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/graph/op_registry.h"

namespace mirrorflow {
namespace {

// User steps are numbered from 0, so initialisers draw from a separate stream.
constexpr uint64_t kInitializerStep = ~uint64_t{0};

std::string InitializerOf(const VariableInfo& variable) {
  return absl::StrCat("initializer of variable '", variable.name, "'");
}

// Returns the variables whose handles `value` depends on.
std::vector<int> VariablesUsedBy(const Output& value, const VariableLayout& layout) {
  std::vector<int> variables;
  absl::flat_hash_set<const Node*> seen = {value.node};
  std::vector<Node*> pending = {value.node};
  auto visit = [&](Node* node) {
    if (seen.insert(node).second) pending.push_back(node);
  };
  while (!pending.empty()) {
    const Node* node = pending.back();
    pending.pop_back();
    if (node->op().role == OpRole::kVariable)
      variables.push_back(layout.FindHandle(node->output(0)));
    for (const Output& in : node->inputs()) visit(in.node);
    for (Node* control : node->control_inputs()) visit(control);
  }
  return variables;
}

absl::StatusOr<Output> FindOutput(const Graph& graph, absl::string_view name) {
  int index = 0;
  const size_t colon = name.find(':');
  const absl::string_view node_name = name.substr(0, colon);
  if (colon != absl::string_view::npos && !absl::SimpleAtoi(name.substr(colon + 1), &index)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", name, "': not the name of an output; expected `node` or `node:1`"));
  }
  Node* node = graph.FindNode(node_name);
  if (node == nullptr || index < 0 || index >= node->num_outputs()) {
    return absl::NotFoundError(absl::StrCat("the graph has no output '", name, "'"));
  }
  return node->output(index);
}

// Runs the initialisers of `variables`, which compute `values`, as one step.
absl::Status RunInitializers(absl::Span<const int> variables, absl::Span<const Output> values,
                             const StepCompiler& compiler, Replica& replica, uint64_t seed,
                             absl::Duration timeout, VariableStore& store) {
  GlobalSignature signature;
  signature.step.fetches.assign(values.begin(), values.end());
  signature.shard = false;
  MF_ASSIGN_OR_RETURN(const std::shared_ptr<const Program> program,
                      compiler.MakeProgram(signature, store.layout()));
  Device& device = replica.device();
  MF_ASSIGN_OR_RETURN(const std::shared_ptr<const Plan> plan,
                      compiler.MakePlan(*program, {}, device, /*num_threads=*/1));
  MF_ASSIGN_OR_RETURN(const std::unique_ptr<BoundPlan> bound, replica.Bind(plan, {}));
  MF_RETURN_IF_ERROR(bound->Run(kInitializerStep, seed, MonotonicTime::Now() + timeout));
  for (size_t i = 0; i < variables.size(); ++i) {
    const VariableInfo& variable = store.info(variables[i]);
    const PlannedFetch& fetch = plan->fetches[i];
    if (fetch.dtype != variable.dtype || fetch.global_shape != variable.shape) {
      return absl::InvalidArgumentError(
          absl::StrCat(InitializerOf(variable), ": expected ", DataTypeName(variable.dtype),
                       variable.shape.ToString(), ", got ", DataTypeName(fetch.dtype),
                       fetch.global_shape.ToString()));
    }
    MF_ASSIGN_OR_RETURN(Tensor value, Tensor::Allocate(variable.dtype, variable.shape));
    MF_RETURN_IF_ERROR(
        device.CopyOut(bound->fetch_address(static_cast<int>(i)), value.raw(), value.bytes()));
    MF_RETURN_IF_ERROR(store.Set(variables[i], value));
  }
  return store.WaitForSharers();
}

}  // namespace

absl::Status InitializeVariables(const Graph& graph, const StepCompiler& compiler, Replica& replica,
                                 uint64_t seed, absl::Duration timeout, VariableStore& store) {
  const std::vector<VariableInfo>& variables = store.layout().variables();
  std::vector<int> left;
  std::vector<Output> initializers(variables.size());
  for (size_t v = 0; v < variables.size(); ++v) {
    const VariableInfo& variable = variables[v];
    if (variable.initializer.empty()) continue;
    MF_ASSIGN_OR_RETURN(initializers[v],
                        Annotate(FindOutput(graph, variable.initializer), InitializerOf(variable)));
    left.push_back(static_cast<int>(v));
  }
  while (!left.empty()) {
    std::vector<int> ready, waiting;
    std::vector<Output> values;
    absl::Status waits;
    for (int v : left) {
      const std::vector<int> reads = VariablesUsedBy(initializers[v], store.layout());
      const auto missing = absl::c_find_if(
          reads, [&](int read) { return store.states()[read] != VariableStore::State::kSet; });
      if (missing == reads.end()) {
        ready.push_back(v);
        values.push_back(initializers[v]);
        continue;
      }
      waiting.push_back(v);
      const VariableInfo& read = variables[*missing];
      waits.Update(absl::InvalidArgumentError(
          absl::StrCat(InitializerOf(variables[v]), " reads variable '", read.name,
                       "'; expected a variable that can be initialised first, got ",
                       read.initializer.empty()
                           ? "a variable without an initializer"
                           : "a variable that depends on this one or on an uninitialised one")));
    }
    if (ready.empty()) return waits;
    MF_RETURN_IF_ERROR(RunInitializers(ready, values, compiler, replica, seed, timeout, store));
    left = std::move(waiting);
  }
  return absl::OkStatus();
}

}  // namespace mirrorflow
