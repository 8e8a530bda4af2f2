// SPDX-License-Identifier: Apache-2.0
//
// Runs branches and loops. Each function call runs in a separate interpreter that shares the
// variables' values.
#include <utility>

#include "framework/core/status.h"
#include "framework/graph/function_body.h"
#include "framework/graph/variable_handle.h"
#include "tests/oracle/in_double.h"
#include "tests/oracle/interpreter_step.h"

namespace mirrorflow {
namespace {

// Returns whether a predicate is true by TensorFlow's rule: a scalar if it is not 0, any other
// tensor if it is not empty.
absl::StatusOr<bool> Holds(const Tensor& predicate) {
  if (predicate.shape().rank() > 0) return predicate.num_elements() > 0;
  MF_ASSIGN_OR_RETURN(const Tensor number, ConvertFloating(predicate, DT_DOUBLE));
  return DispatchDataType(
      number.dtype(),
      [&](auto tag) {
        using T = typename decltype(tag)::type;
        return number.flat<T>()[0] != T{};
      },
      false);
}

}  // namespace

// Calls a function. `args` are the node's inputs that become the function's arguments; handles have
// no value. The function reads and updates `variables`.
absl::StatusOr<std::vector<Tensor>> Interpreter::StepRun::Call(
    const Node& node, absl::string_view function, std::vector<Tensor> args,
    const StepParams& params, std::map<std::string, Tensor>* variables) const {
  if (interpreter_.options_.ops == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(OpAndName(node), ": InterpreterOptions::ops is not set"));
  }
  const Graph& graph = interpreter_.original_;
  const Node& original = *graph.FindNode(node.name());
  const int first = original.op().role == OpRole::kBranch ? 1 : 0;
  MF_ASSIGN_OR_RETURN(
      const FunctionBody body,
      InstantiateFunction(graph, original.attr<FunctionRef>(function),
                          absl::StrCat(node.name(), "/", function),
                          original.inputs().subspan(first), *interpreter_.options_.ops));
  MF_ASSIGN_OR_RETURN(Interpreter inside,
                      Create(body.graph, *interpreter_.kernels_, interpreter_.options_));
  inside.variables_ = std::move(*variables);
  inside.lists_ = interpreter_.lists_;
  std::vector<std::pair<Output, Tensor>> feeds;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].has_value()) feeds.emplace_back(body.args[i], std::move(args[i]));
  }
  std::vector<Output> fetches;
  for (const Output& result : body.results) {
    if (result.dtype() != DT_RESOURCE) fetches.push_back(result);
  }
  std::vector<Operation> targets;
  for (Node* target : body.targets) targets.push_back({target});
  MF_ASSIGN_OR_RETURN(std::vector<Tensor> values, inside.Run(feeds, fetches, targets, params));
  *variables = std::move(inside.variables_);
  std::vector<Tensor> results;
  size_t next = 0;
  for (const Output& result : body.results) {
    results.push_back(result.dtype() == DT_RESOURCE ? Tensor() : std::move(values[next++]));
  }
  return results;
}

absl::Status Interpreter::StepRun::ExecuteControl(const Node& node, Seen seen) {
  const int first = node.op().role == OpRole::kBranch ? 1 : 0;
  std::vector<Tensor> values;
  std::map<std::string, Tensor> variables;
  for (int i = first; i < node.num_inputs(); ++i) {
    Tensor value;
    if (node.input(i).dtype() != DT_RESOURCE) {
      MF_ASSIGN_OR_RETURN(value, ValueOf(node.input(i)));
    } else {
      // A variable without a value is not an error here, because the function may not read it.
      MF_ASSIGN_OR_RETURN(const std::string name, VariableName(node.input(i)));
      const auto versions = versions_.find(name);
      if (versions != versions_.end()) {
        MF_ASSIGN_OR_RETURN(variables[name], versions->second[seen[name]].Clone());
      } else if (interpreter_.variables_.count(name) > 0) {
        MF_ASSIGN_OR_RETURN(variables[name], ValueBeforeStep(node, node.input(i), name));
      }
    }
    values.push_back(std::move(value));
  }
  const std::map<std::string, Tensor> before = variables;
  if (node.op().role == OpRole::kBranch) {
    MF_ASSIGN_OR_RETURN(const Tensor predicate, ValueOf(node.input(0)));
    MF_ASSIGN_OR_RETURN(const bool taken, Holds(predicate));
    MF_ASSIGN_OR_RETURN(
        values, Call(node, taken ? "then_branch" : "else_branch", values, params_, &variables));
  } else {
    for (uint64_t i = 0;; ++i) {
      StepParams params = params_;
      params.iteration = IterationOf(params_.iteration, i);
      MF_ASSIGN_OR_RETURN(const std::vector<Tensor> condition,
                          Call(node, "cond", values, params, &variables));
      MF_ASSIGN_OR_RETURN(const bool continues, Holds(condition[0]));
      if (!continues) break;
      MF_ASSIGN_OR_RETURN(values, Call(node, "body", values, params, &variables));
    }
  }
  for (int i = 0; i < node.num_outputs(); ++i) {
    if (values[i].has_value()) values_[node.output(i)] = values[i];
  }
  for (const auto& [name, value] : variables) {
    const auto old = before.find(name);
    if (old != before.end() && old->second.raw() == value.raw())
      continue;  // the call did not write it
    std::vector<Tensor>& versions = versions_[name];
    if (versions.empty()) {
      // Keep version 0 for a later read that is not ordered after this node.
      versions.push_back(old != before.end() ? old->second : Tensor());
    }
    versions.push_back(value);
    seen[name] = static_cast<int>(versions.size()) - 1;
  }
  if (!seen.empty()) seen_.emplace(&node, std::move(seen));
  return absl::OkStatus();
}

}  // namespace mirrorflow
