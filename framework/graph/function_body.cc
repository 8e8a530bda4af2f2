// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/function_body.h"

#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/core/hash.h"
#include "framework/core/names.h"
#include "framework/core/status.h"
#include "framework/graph/function_references.h"
#include "framework/graph/graph_def.h"
#include "framework/graph/shape_inference.h"
#include "framework/graph/tensor_proto.h"
#include "framework/graph/variable_handle.h"
#include "framework/proto/serialize.h"

namespace mirrorflow {
namespace {

// Adds function `name` to `def`, with all functions that it references.
absl::Status AddReachable(const FunctionLibrary& library, const std::string& name,
                          proto::FunctionDefLibrary* def) {
  absl::flat_hash_set<std::string> seen = {name};
  std::vector<std::string> pending = {name};
  while (!pending.empty()) {
    const std::string* bytes = library.Find(pending.back());
    pending.pop_back();
    if (bytes == nullptr) continue;  // an op, not a function
    proto::FunctionDef& function = *def->add_function();
    if (!function.ParseFromString(*bytes)) {
      return absl::InvalidArgumentError(absl::StrCat("function '",
                                                     Printable(function.signature().name()),
                                                     "' in the library is not a FunctionDef"));
    }
    for (const proto::NodeDef& node : function.node_def()) {
      VisitFunctions(node, [&](const std::string& mentioned) {
        if (seen.insert(mentioned).second) pending.push_back(mentioned);
      });
    }
  }
  return absl::OkStatus();
}

// Adds the node that represents an argument in the body: a placeholder, or the handle of the same
// variable.
absl::Status ArgNode(const Graph& caller, const Output& arg, const OpRegistry& ops,
                     proto::NodeDef* def) {
  auto set = [&](const char* name, const AttrValue& value) {
    return AttrValueToProto(value, &(*def->mutable_attr())[name]);
  };
  if (arg.dtype() != DT_RESOURCE) {
    def->set_op(ops.FindRole(OpRole::kPlaceholder)->name);
    MF_RETURN_IF_ERROR(set("dtype", arg.dtype()));
    return set("shape", caller.values().shape(arg));
  }
  MF_ASSIGN_OR_RETURN(const std::string name, VariableName(arg));
  const Node& variable = VariableOf(arg);
  def->set_op(variable.op().name);
  for (const char* attr : {"dtype", "shape", "container"}) {
    if (variable.has_attr(attr)) {
      MF_RETURN_IF_ERROR(set(attr, variable.attrs().find(attr)->second));
    }
  }
  return set("shared_name", name);
}

}  // namespace

absl::StatusOr<FunctionBody> InstantiateFunction(const Graph& caller, const FunctionRef& function,
                                                 absl::string_view name,
                                                 absl::Span<const Output> args,
                                                 const OpRegistry& ops) {
  if (caller.functions().Find(function.name) == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the library has no function '", Printable(function.name), "'"));
  }
  proto::GraphDef def;
  MF_RETURN_IF_ERROR(AddReachable(caller.functions(), function.name, def.mutable_library()));
  proto::NodeDef call;
  call.set_name(std::string(name));
  call.set_op(function.name);  // calls the function by its name
  for (const auto& [attr, value] : function.attrs) {
    MF_RETURN_IF_ERROR(AttrValueToProto(value, &(*call.mutable_attr())[attr]));
  }
  for (size_t i = 0; i < args.size(); ++i) {
    proto::NodeDef* arg = def.add_node();
    arg->set_name(absl::StrCat(name, "/arg_", i));
    MF_RETURN_IF_ERROR(ArgNode(caller, args[i], ops, arg));
    call.add_input(arg->name());
  }
  *def.add_node() = std::move(call);
  FunctionBody body;
  MF_ASSIGN_OR_RETURN(body.graph, FromGraphDef(def, ops));
  for (size_t i = 0; i < args.size(); ++i) {
    body.args.push_back(body.graph.FindNode(absl::StrCat(name, "/arg_", i))->output(0));
  }
  // Inlining replaced the call with an Identity of the function's results. With several results,
  // each one already waits for the call's control inputs before it reaches the Identity.
  Node* returned = body.graph.FindNode(name);
  for (int i = 0; i < returned->num_outputs(); ++i) {
    const bool waits = returned->num_outputs() == 1 && !returned->control_inputs().empty();
    const bool is_handle = returned->output_dtype(i) == DT_RESOURCE;
    body.results.push_back(waits && !is_handle ? returned->output(i) : returned->input(i));
  }
  if (returned->num_outputs() == 0) body.targets.push_back(returned);
  return body;
}

absl::StatusOr<std::string> FindInside(const FunctionBody& body, const OpRegistry& ops,
                                       absl::FunctionRef<bool(const OpDef&)> wanted) {
  proto::FunctionDefLibrary inside;
  for (const Node* node : body.graph.Nodes()) {
    if (wanted(node->op())) return OpAndName(*node);
    for (const auto& [name, value] : node->attrs()) {
      const FunctionRef* function = value.get_if<FunctionRef>();
      if (function == nullptr) continue;
      MF_RETURN_IF_ERROR(AddReachable(body.graph.functions(), function->name, &inside));
    }
  }
  for (const proto::FunctionDef& function : inside.function()) {
    for (const proto::NodeDef& node : function.node_def()) {
      const OpDef* op = ops.Find(node.op());
      if (op != nullptr && wanted(*op)) return absl::StrCat(op->name, "(", node.name(), ")");
    }
  }
  return std::string();
}

absl::Status InlineBody(FunctionBody& body, absl::Span<const Output> args,
                        absl::Span<const Operation> before, Graph& graph) {
  std::vector<Output> value(body.graph.id_limit());  // output 0 of the copy, by original node id
  for (size_t i = 0; i < args.size(); ++i) value[body.args[i].node->id()] = args[i];
  auto copied = [&](const Output& output) {
    const Output& first = value[output.node->id()];
    return Output{first.node, first.index + output.index};
  };
  MF_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(body.graph));
  for (const Node* node : order) {
    if (value[node->id()].valid()) continue;  // an argument
    std::vector<Output> inputs;
    for (const Output& in : node->inputs()) inputs.push_back(copied(in));
    std::vector<Node*> controls;
    for (const Node* in : node->control_inputs()) controls.push_back(value[in->id()].node);
    MF_ASSIGN_OR_RETURN(Node * copy,
                        graph.AddNode(graph.UniqueName(node->name()), node->op(), node->attrs(),
                                      std::move(inputs), std::move(controls)));
    if (node->op().has(kStateful)) {
      for (const Operation& earlier : before) graph.AddControlEdge(earlier.node, copy);
    }
    MF_RETURN_IF_ERROR(graph.values().Infer(*copy));
    value[node->id()] = Output{copy, 0};
  }
  for (Output& result : body.results) result = copied(result);
  for (Node*& target : body.targets) target = value[target->id()].node;
  return absl::OkStatus();
}

absl::StatusOr<FunctionRef> DefineFunction(const FunctionBody& body, absl::string_view name,
                                           Graph& caller) {
  MF_ASSIGN_OR_RETURN(const proto::GraphDef def, ToGraphDef(body.graph));
  proto::FunctionDef function;
  for (const Output& arg : body.args) {
    auto* arg_def = function.mutable_signature()->add_input_arg();
    arg_def->set_name(arg.node->name());
    arg_def->set_type(static_cast<proto::DataType>(arg.dtype()));
  }
  for (const proto::NodeDef& node_def : def.node()) {
    const Node* node = body.graph.FindNode(node_def.name());
    if (absl::c_linear_search(body.args, node->output(0))) continue;
    proto::NodeDef& copy = *function.add_node_def();
    copy = node_def;
    for (int i = 0; i < copy.input_size(); ++i) {
      if (absl::StartsWith(copy.input(i), "^")) continue;
      MF_ASSIGN_OR_RETURN(*copy.mutable_input(i), NameInBody(node->input(i), body.args));
    }
    if (node->op().has(kStateful)) function.mutable_signature()->set_is_stateful(true);
  }
  for (size_t i = 0; i < body.results.size(); ++i) {
    auto* result = function.mutable_signature()->add_output_arg();
    result->set_name(absl::StrCat("result_", i));
    result->set_type(static_cast<proto::DataType>(body.results[i].dtype()));
    MF_ASSIGN_OR_RETURN((*function.mutable_ret())[result->name()],
                        NameInBody(body.results[i], body.args));
  }
  for (const Node* target : body.targets) {
    function.mutable_signature()->add_control_output(target->name());
    (*function.mutable_control_ret())[target->name()] = target->name();
  }
  for (const proto::FunctionDef& inner : def.library().function()) {
    MF_ASSIGN_OR_RETURN(std::string bytes, SerializeDeterministically(inner));
    MF_RETURN_IF_ERROR(caller.functions().Add(inner.signature().name(), std::move(bytes)));
  }
  MF_ASSIGN_OR_RETURN(const std::string nameless, SerializeDeterministically(function));
  FunctionRef ref{absl::StrCat(name, "_", absl::Hex(StableHash(nameless), absl::kZeroPad16)), {}};
  function.mutable_signature()->set_name(ref.name);
  MF_ASSIGN_OR_RETURN(std::string bytes, SerializeDeterministically(function));
  MF_RETURN_IF_ERROR(caller.functions().Add(ref.name, std::move(bytes)));
  return ref;
}

}  // namespace mirrorflow
