// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/interpreter.h"

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "framework/graph/variable_handle.h"
#include "framework/runtime/evaluate_node.h"
#include "tests/oracle/in_double.h"
#include "tests/oracle/interpreter_step.h"

namespace mirrorflow {
absl::Status Interpreter::StepRun::Feed(const Output& value, Tensor tensor) {
  if (interpreter_.options_.in_double) {
    MF_ASSIGN_OR_RETURN(tensor, ConvertFloating(tensor, DT_DOUBLE));
  }
  if (value.dtype() == DT_VARIANT) {  // a list that is passed to a function
    fed_.insert_or_assign(value, std::move(tensor));
    return absl::OkStatus();
  }
  ShapeTable table;
  if (value.node->op().role == OpRole::kPlaceholder) {
    for (const Output& by_default : value.node->inputs()) table.Set(by_default, ValueInfo());
    MF_RETURN_IF_ERROR(table.Infer(*value.node));
  }
  const Shape& shape = table.shape(value);
  if (tensor.dtype() != value.dtype() || !shape.IsCompatibleWith(tensor.shape())) {
    return absl::InvalidArgumentError(
        absl::StrCat("feed of ", OpAndName(*value.node), ": expected ", DataTypeName(value.dtype()),
                     " of shape ", shape.ToString(), ", got ", DataTypeName(tensor.dtype()),
                     " of shape ", tensor.shape().ToString()));
  }
  fed_.insert_or_assign(value, std::move(tensor));
  return absl::OkStatus();
}

void Interpreter::StepRun::FindNeeded(absl::Span<const Output> fetches,
                                      absl::Span<Node* const> targets) {
  std::vector<const Node*> to_visit;
  auto need = [&](const Node* node) {
    if (needed_.insert(node).second) to_visit.push_back(node);
  };
  auto need_value = [&](const Output& value) {
    if (!fed_.contains(value)) need(value.node);
  };
  for (const Output& fetch : fetches) need_value(fetch);
  for (const Node* target : targets) need(target);
  while (!to_visit.empty()) {
    const Node* node = to_visit.back();
    to_visit.pop_back();
    for (const Output& in : node->inputs()) need_value(in);
    for (const Node* control : node->control_inputs()) {
      if (control->num_outputs() == 1) {
        need_value(control->output(0));
      } else {
        need(control);
      }
    }
  }
}

absl::Status Interpreter::StepRun::Execute(absl::Span<const Output> fetches,
                                           absl::Span<Node* const> targets) {
  FindNeeded(fetches, targets);
  MF_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(graph_));
  for (const Node* node : order) {
    if (needed_.contains(node)) MF_RETURN_IF_ERROR(ExecuteNode(*node));
  }
  return absl::OkStatus();
}

Interpreter::StepRun::Seen Interpreter::StepRun::VersionsBefore(const Node& node) const {
  Seen seen;
  auto merge = [&](const Node* earlier) {
    const auto it = seen_.find(earlier);
    if (it == seen_.end()) return;
    for (const auto& [name, version] : it->second) seen[name] = std::max(seen[name], version);
  };
  for (const Output& in : node.inputs()) {
    if (!fed_.contains(in)) merge(in.node);
  }
  for (const Node* control : node.control_inputs()) merge(control);
  return seen;
}

absl::StatusOr<Tensor> Interpreter::StepRun::ValueBeforeStep(const Node& node, const Output& handle,
                                                             const std::string& name) const {
  const DataType dtype = VariableOf(handle).attr<DataType>("dtype");
  const Shape& shape = VariableOf(handle).attr<Shape>("shape");
  const auto it = interpreter_.variables_.find(name);
  if (it == interpreter_.variables_.end()) {
    if (node.op().has(kOverwrites)) return Tensor::Allocate(dtype, shape);
    return absl::FailedPreconditionError(
        absl::StrCat(OpAndName(node), ": variable '", name, "' has no value yet"));
  }
  Tensor value = it->second;
  if (interpreter_.options_.in_double) {
    MF_ASSIGN_OR_RETURN(value, ConvertFloating(value, DT_DOUBLE));
  }
  if (value.dtype() == dtype && shape.IsCompatibleWith(value.shape())) return value;
  return absl::InvalidArgumentError(
      absl::StrCat(OpAndName(node), ": value of variable '", name, "': expected ",
                   DataTypeName(dtype), " of shape ", shape.ToString(), ", got ",
                   DataTypeName(value.dtype()), " of shape ", value.shape().ToString()));
}

absl::StatusOr<Tensor> Interpreter::StepRun::VariableInput(
    const Node& node, const Output& handle, Seen* seen,
    absl::flat_hash_map<std::string, Tensor>* written) {
  MF_ASSIGN_OR_RETURN(const std::string name, VariableName(handle));
  std::vector<Tensor>& versions = versions_[name];
  if (versions.empty()) {
    MF_ASSIGN_OR_RETURN(Tensor before, ValueBeforeStep(node, handle, name));
    versions.push_back(std::move(before));
  }
  if (node.op().role != OpRole::kWrite) return versions[(*seen)[name]];
  Tensor& value = (*written)[name];
  if (!value.has_value()) {
    MF_ASSIGN_OR_RETURN(value, versions.back().Clone());
  }
  return value;
}

absl::Status Interpreter::StepRun::ExecuteNode(const Node& node) {
  Seen seen = VersionsBefore(node);
  if (node.op().role == OpRole::kBranch || node.op().role == OpRole::kLoop) {
    return ExecuteControl(node, std::move(seen));
  }
  if (node.op().role == OpRole::kHasValue) {
    MF_ASSIGN_OR_RETURN(const std::string name, VariableName(node.input(0)));
    const bool written = seen.count(name) > 0 && seen[name] > 0;
    values_[node.output(0)] = Tensor::Scalar(written || interpreter_.variables_.count(name) > 0);
    if (!seen.empty()) seen_.emplace(&node, std::move(seen));
    return absl::OkStatus();
  }
  // Handles are resolved where they are used, so the nodes that create them do not run.
  const bool runs = node.op().role != OpRole::kNoOp &&
                    (node.num_outputs() == 0 || node.output_dtype(0) != DT_RESOURCE);
  std::vector<Tensor> inputs;
  absl::flat_hash_map<std::string, Tensor> written;
  for (int i = 0; runs && i < node.num_inputs(); ++i) {
    const Output& in = node.input(i);
    if (in.dtype() == DT_RESOURCE) {
      MF_ASSIGN_OR_RETURN(Tensor variable, VariableInput(node, in, &seen, &written));
      inputs.push_back(std::move(variable));
    } else {
      MF_ASSIGN_OR_RETURN(Tensor value, ValueOf(in));
      inputs.push_back(std::move(value));
    }
  }
  if (runs) {
    MF_ASSIGN_OR_RETURN(const std::vector<Tensor> outputs, Compute(node, std::move(inputs)));
    for (int i = 0; i < node.num_outputs(); ++i) values_[node.output(i)] = outputs[i];
  }
  for (auto& [name, value] : written) {
    versions_[name].push_back(std::move(value));
    seen[name] = static_cast<int>(versions_[name].size()) - 1;
  }
  if (!seen.empty()) seen_.emplace(&node, std::move(seen));
  return absl::OkStatus();
}

// Every input value is known, so the shape function has complete information.
absl::StatusOr<std::vector<Shape>> Interpreter::StepRun::InferShapes(
    const Node& node, absl::Span<const Tensor> inputs) const {
  ShapeTable table;
  for (int i = 0; i < node.num_inputs(); ++i) {
    const bool handle = node.input(i).dtype() == DT_RESOURCE;
    table.Set(node.input(i), handle ? ValueInfo{.shape = Shape(),
                                                .handle_dtype = inputs[i].dtype(),
                                                .handle_shape = inputs[i].shape()}
                                    : ValueInfo{.shape = inputs[i].shape(), .constant = inputs[i]});
  }
  MF_RETURN_IF_ERROR(table.Infer(node));
  std::vector<Shape> shapes;
  for (int i = 0; i < node.num_outputs(); ++i) {
    shapes.push_back(table.shape(node.output(i)));
    if (!shapes.back().IsFullyDefined()) {
      return absl::UnimplementedError(absl::StrCat(OpAndName(node), ": the shape of output ", i,
                                                   " depends on data; got ",
                                                   shapes.back().ToString()));
    }
  }
  return shapes;
}

absl::StatusOr<std::vector<Tensor>> Interpreter::StepRun::Compute(
    const Node& node, std::vector<Tensor> inputs) const {
  const auto is_list = [](const Output& value) { return value.dtype() == DT_VARIANT; };
  bool has_lists = std::any_of(node.inputs().begin(), node.inputs().end(), is_list);
  for (int i = 0; i < node.num_outputs(); ++i) has_lists |= is_list(node.output(i));
  if (has_lists && node.op().role != OpRole::kPlaceholder) {
    if (interpreter_.options_.run_list_op == nullptr) {
      return absl::FailedPreconditionError(
          absl::StrCat(OpAndName(node), ": InterpreterOptions::run_list_op is not set"));
    }
    auto outputs = interpreter_.options_.run_list_op(node, inputs, *interpreter_.lists_);
    if (!outputs.ok()) return Annotate(outputs.status(), OpAndName(node));
    return outputs;
  }
  if (node.op().role == OpRole::kPlaceholder) {
    if (node.num_inputs() > 0) {
      MF_ASSIGN_OR_RETURN(Tensor by_default, inputs[0].Clone());
      return std::vector<Tensor>{std::move(by_default)};
    }
    return absl::InvalidArgumentError(absl::StrCat(OpAndName(node), " must be fed"));
  }
  if (node.op().role == OpRole::kConstant) return std::vector<Tensor>{node.attr<Tensor>("value")};
  MF_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, InferShapes(node, inputs));
  const EvaluateOptions options = {.params = params_};
  if (!node.op().has(kRandom) || !interpreter_.options_.in_double) {
    return EvaluateNode(node, inputs, shapes, *interpreter_.kernels_, options);
  }
  const Node& original = *interpreter_.original_.FindNode(node.name());
  for (int i = 0; i < node.num_inputs(); ++i) {
    MF_ASSIGN_OR_RETURN(inputs[i], ConvertFloating(inputs[i], original.input(i).dtype()));
  }
  MF_ASSIGN_OR_RETURN(std::vector<Tensor> outputs,
                      EvaluateNode(original, inputs, shapes, *interpreter_.kernels_, options));
  for (Tensor& output : outputs) {
    MF_ASSIGN_OR_RETURN(output, ConvertFloating(output, DT_DOUBLE));
  }
  return outputs;
}

absl::StatusOr<Tensor> Interpreter::StepRun::ValueOf(const Output& value) const {
  const auto fed = fed_.find(value);
  if (fed != fed_.end()) return fed->second;
  const auto it = values_.find(value);
  if (it != values_.end()) return it->second;
  return absl::InvalidArgumentError(
      absl::StrCat("value of ", OpAndName(*value.node), ": a handle has no value"));
}

void Interpreter::StepRun::Commit() {
  for (auto& [name, versions] : versions_) interpreter_.variables_[name] = versions.back();
}

absl::StatusOr<Interpreter> Interpreter::Create(const Graph& graph, const KernelRegistry& kernels,
                                                const InterpreterOptions& options) {
  MF_RETURN_IF_ERROR(graph.status());
  Interpreter interpreter;
  interpreter.kernels_ = &kernels;
  interpreter.options_ = options;
  interpreter.original_ = graph.Clone();
  if (options.in_double) {
    MF_ASSIGN_OR_RETURN(GraphInDouble copy, CopyInDouble(graph));
    interpreter.graph_ = std::move(copy.graph);
    interpreter.nodes_ = std::move(copy.nodes);
  } else {
    interpreter.graph_ = graph.Clone();
    for (NodeId id = 0; id < graph.id_limit(); ++id) {
      interpreter.nodes_.push_back(interpreter.graph_.node(id));
    }
  }
  return interpreter;
}

absl::StatusOr<Output> Interpreter::Translate(const Output& output) const {
  MF_ASSIGN_OR_RETURN(const Node* copy,
                      original_.CopyOf(output.node, "interpreter", "Interpreter::Create"));
  return Output{nodes_[copy->id()], output.index};
}

absl::StatusOr<std::vector<Tensor>> Interpreter::Run(
    absl::Span<const std::pair<Output, Tensor>> feeds, absl::Span<const Output> fetches,
    absl::Span<const Operation> targets, const StepParams& params) {
  const std::shared_ptr<ReferenceLists> around = lists_;  // the lists of the calling step, if any
  if (around == nullptr) lists_ = std::make_shared<ReferenceLists>();
  const auto forget = absl::MakeCleanup([&] { lists_ = around; });
  StepRun step(*this, params);
  for (const auto& [value, tensor] : feeds) {
    MF_ASSIGN_OR_RETURN(const Output translated, Translate(value));
    MF_RETURN_IF_ERROR(step.Feed(translated, tensor));
  }
  std::vector<Output> values;
  for (const Output& fetch : fetches) {
    MF_ASSIGN_OR_RETURN(const Output translated, Translate(fetch));
    values.push_back(translated);
  }
  std::vector<Node*> nodes;
  for (const Operation& target : targets) {
    MF_ASSIGN_OR_RETURN(const Output translated, Translate({target.node, 0}));
    nodes.push_back(translated.node);
  }
  MF_RETURN_IF_ERROR(step.Execute(values, nodes));
  std::vector<Tensor> results;
  for (const Output& value : values) {
    MF_ASSIGN_OR_RETURN(Tensor result, step.ValueOf(value));
    results.push_back(std::move(result));
  }
  step.Commit();
  return results;
}

absl::Status Interpreter::InitializeVariables(const StepParams& params) {
  std::vector<std::string> names;
  std::vector<Output> initial_values;
  for (Node* node : original_.Nodes()) {
    if (node->op().role != OpRole::kVariable || !node->has_attr("_initializer")) continue;
    MF_ASSIGN_OR_RETURN(const std::string name, VariableName(node->output(0)));
    if (variables_.count(name) > 0) continue;
    const std::string& initializer = node->attr<std::string>("_initializer");
    Node* made_by = original_.FindNode(initializer);
    if (made_by == nullptr || made_by->num_outputs() == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(OpAndName(*node), ": attribute '_initializer' names '", initializer,
                       "'; expected a node of the graph that has an output"));
    }
    names.push_back(name);
    initial_values.push_back(made_by->output(0));
  }
  MF_ASSIGN_OR_RETURN(std::vector<Tensor> values, Run({}, initial_values, {}, params));
  for (size_t i = 0; i < names.size(); ++i) variables_[names[i]] = std::move(values[i]);
  return absl::OkStatus();
}

}  // namespace mirrorflow
