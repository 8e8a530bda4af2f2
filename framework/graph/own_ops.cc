// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/own_ops.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "framework/core/hash.h"
#include "framework/core/status.h"
#include "framework/graph/function_references.h"
#include "framework/graph/graph_def.h"
#include "framework/graph/scope.h"
#include "framework/graph/shape_inference.h"
#include "framework/proto/serialize.h"

namespace mirrorflow {
namespace {

// The attribute that names, with a prefix, the op that a function expands. TensorFlow defines this
// attribute for functions that stand for one operation, and refuses to load a SavedModel whose
// functions have unknown attributes.
constexpr char kOwnOpAttr[] = "_implements";
constexpr absl::string_view kOwnOpPrefix = "mirrorflow.";

// Returns the name of the op that the function expands, or an empty string if it expands none.
absl::string_view OwnOpOf(const proto::FunctionDef& function) {
  const auto attr = function.attr().find(kOwnOpAttr);
  if (attr == function.attr().end()) return "";
  absl::string_view name = attr->second.s();
  return absl::ConsumePrefix(&name, kOwnOpPrefix) ? name : "";
}

// Returns the op that represents a function argument. Its name is TensorFlow's; it is never written
// to a file.
const OpDef& ArgumentOp() {
  static const OpDef* const op = [] {
    auto* def = new OpDef();
    def->name = "_Arg";
    def->outputs = {{.name = "output", .type_attr = "T"}};
    def->attrs = {{.name = "T", .type = "type"}};
    def->role = OpRole::kPlaceholder;
    def->shape = [](ShapeContext&) { return absl::OkStatus(); };
    return def;
  }();
  return *op;
}

// The expansion of a node, for operands of known dtypes and unknown shapes.
struct Expansion {
  Graph graph;
  std::vector<Output> args;  // named after the op's arguments
  std::vector<Output> results;
};

absl::StatusOr<Expansion> ExpansionOf(const Node& node) {
  const OpDef& op = node.op();
  Expansion expansion;
  const Scope scope(&expansion.graph);
  std::vector<Node*> kept;
  for (const ArgDef& arg : op.inputs) {
    MF_ASSIGN_OR_RETURN(const ArgRange range, FindArg(op.inputs, node.attrs(), arg.name));
    for (int i = range.first; i < range.last; ++i) {
      expansion.args.push_back(
          scope.WithName(arg.name).Build(ArgumentOp()).Attr("T", node.input(i).dtype()).One());
      kept.push_back(expansion.args.back().node);
    }
  }
  MF_RETURN_IF_ERROR(scope.status());
  MF_ASSIGN_OR_RETURN(Node * like,
                      expansion.graph.AddNode(op.name, op, node.attrs(), expansion.args));
  MF_RETURN_IF_ERROR(expansion.graph.values().Infer(*like));
  MF_ASSIGN_OR_RETURN(expansion.results, op.expand(scope, *like));
  MF_RETURN_IF_ERROR(scope.status());
  if (expansion.results.size() != op.outputs.size()) {
    return absl::InternalError(absl::StrCat(op.name, ": expected an expansion with ",
                                            op.outputs.size(), " results, got ",
                                            expansion.results.size()));
  }
  for (const Output& result : expansion.results) kept.push_back(result.node);
  expansion.graph.RemoveUnneeded(kept);
  return expansion;
}

// Declares the attributes that calls carry, as TensorFlow requires, although the body already
// contains their values.
void Declare(const OpDef& op, const Expansion& expansion, proto::OpDef* signature) {
  for (const AttrDef& attr : op.attrs) {
    auto* declared = signature->add_attr();
    declared->set_name(attr.name);
    declared->set_type(attr.type);
  }
  for (const Output& arg : expansion.args) {
    auto* declared = signature->add_input_arg();
    declared->set_name(arg.node->name());
    declared->set_type(static_cast<proto::DataType>(arg.dtype()));
  }
  for (size_t i = 0; i < expansion.results.size(); ++i) {
    auto* declared = signature->add_output_arg();
    declared->set_name(op.outputs[i].name);
    declared->set_type(static_cast<proto::DataType>(expansion.results[i].dtype()));
  }
}

// Returns the function for `node`, without a name.
absl::StatusOr<proto::FunctionDef> FunctionOf(const Node& node) {
  MF_ASSIGN_OR_RETURN(const Expansion expansion, ExpansionOf(node));
  MF_ASSIGN_OR_RETURN(proto::GraphDef def, ToGraphDef(expansion.graph));
  proto::FunctionDef function;
  Declare(node.op(), expansion, function.mutable_signature());
  for (proto::NodeDef& node_def : *def.mutable_node()) {
    const Node* in_body = expansion.graph.FindNode(node_def.name());
    if (&in_body->op() == &ArgumentOp()) continue;
    for (int i = 0; i < in_body->num_inputs(); ++i) {
      MF_ASSIGN_OR_RETURN(*node_def.mutable_input(i),
                          NameInBody(in_body->input(i), expansion.args));
    }
    *function.add_node_def() = std::move(node_def);
  }
  for (size_t i = 0; i < expansion.results.size(); ++i) {
    MF_ASSIGN_OR_RETURN((*function.mutable_ret())[node.op().outputs[i].name],
                        NameInBody(expansion.results[i], expansion.args));
  }
  return function;
}

bool HasTheUsualAttributes(const Node& node) {
  return absl::c_all_of(node.op().attrs, [&](const AttrDef& attr) {
    const AttrValue usual =
        attr.default_value.has_value() ? *attr.default_value : AttrValue(DT_FLOAT);
    return node.attrs().find(attr.name)->second == usual;
  });
}

}  // namespace

absl::Status ExportOwnOp(const Node& node, FunctionLibrary* library, proto::NodeDef* def) {
  MF_ASSIGN_OR_RETURN(proto::FunctionDef function, FunctionOf(node));
  std::string name = node.op().name;
  (*function.mutable_attr())[kOwnOpAttr].set_s(absl::StrCat(kOwnOpPrefix, name));
  if (!HasTheUsualAttributes(node)) {
    MF_ASSIGN_OR_RETURN(const std::string nameless, SerializeDeterministically(function));
    absl::StrAppend(&name, "_", absl::Hex(StableHash(nameless), absl::kZeroPad16));
  }
  def->set_op(name);
  if (library->Find(name) != nullptr) return absl::OkStatus();
  function.mutable_signature()->set_name(name);
  MF_ASSIGN_OR_RETURN(std::string bytes, SerializeDeterministically(function));
  return library->Add(name, std::move(bytes));
}

absl::Status CheckOwnOps(const proto::GraphDef& def, const OpRegistry& registry) {
  for (const proto::FunctionDef& function : def.library().function()) {
    const std::string& name = function.signature().name();
    const OpDef* op = registry.Find(name);
    if (op == nullptr || !op->has(kOwnOp) || !OwnOpOf(function).empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("function '", name,
                     "': a Mirrorflow op has the same name, and may mean something else; "
                     "rename the function"));
  }
  return absl::OkStatus();
}

std::optional<proto::GraphDef> RestoreOwnOps(const proto::GraphDef& def,
                                             const OpRegistry& registry) {
  // The op's name, by the name of each function that expands the op but has another name.
  absl::flat_hash_map<std::string, std::string> renamed;
  for (const proto::FunctionDef& function : def.library().function()) {
    const OpDef* op = registry.Find(OwnOpOf(function));
    if (op != nullptr && op->has(kOwnOp) && op->name != function.signature().name())
      renamed[function.signature().name()] = op->name;
  }
  if (renamed.empty()) return std::nullopt;
  proto::GraphDef restored = def;
  const auto restore = [&](proto::NodeDef& node) {
    const auto it = renamed.find(node.op());
    if (it != renamed.end()) node.set_op(it->second);
  };
  for (proto::NodeDef& node : *restored.mutable_node()) restore(node);
  for (proto::FunctionDef& function : *restored.mutable_library()->mutable_function()) {
    for (proto::NodeDef& node : *function.mutable_node_def()) restore(node);
  }
  return restored;
}

}  // namespace mirrorflow
