// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/graph_def.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "framework/core/names.h"
#include "framework/core/status.h"
#include "framework/graph/creation_scope.h"
#include "framework/graph/graph_assembler.h"
#include "framework/graph/inline_functions.h"
#include "framework/graph/own_ops.h"
#include "framework/graph/tensor_proto.h"
#include "framework/graph/validate_graph_def.h"
#include "framework/graph/variable_handle.h"
#include "framework/proto/serialize.h"

namespace mirrorflow {
namespace {

// Attributes of TensorFlow's ops that do not affect results. They are dropped if the schema here
// lacks them.
constexpr absl::string_view kHints[] = {
    "allowed_devices",  // where a variable may be placed
    "debug_name",       // a variable's name in debug output
    "grad_a",           // MatMul: which operand is a gradient
    "grad_b",          "use_cudnn_on_gpu",
};

bool IsHint(absl::string_view name) { return absl::c_linear_search(kHints, name); }

// Returns the argument of `op` that TensorFlow's op lacks, or null; see the top of graph_def.h.
const ArgDef* OwnArg(const OpDef& op) {
  if (op.inputs.empty() || !absl::StartsWith(op.inputs.back().number_attr, "_")) return nullptr;
  return &op.inputs.back();
}

std::string OwnArgAttr(const ArgDef& arg) { return absl::StrCat("_", arg.name); }

absl::Status NodeToProto(const Node& node, proto::NodeDef* def) {
  AttrMap attrs = node.attrs();
  attrs.erase(kCreationScopeAttr);
  int num_inputs = node.num_inputs();
  std::vector<Node*> controls(node.control_inputs().begin(), node.control_inputs().end());
  if (const ArgDef* own = OwnArg(node.op())) {
    MF_ASSIGN_OR_RETURN(const int64_t count, ArgCount(*own, attrs));
    num_inputs -= count;
    AttrList names;
    for (const Output& in : node.inputs().subspan(num_inputs)) {
      names.emplace_back(absl::StrCat(in.node->name(), ":", in.index));
      if (!absl::c_linear_search(controls, in.node)) {
        controls.push_back(in.node);
      }
    }
    attrs.erase(own->number_attr);
    if (count == 1) attrs[OwnArgAttr(*own)] = names[0];
    if (count > 1) attrs[OwnArgAttr(*own)] = std::move(names);
  }
  def->set_name(node.name());
  def->set_op(node.op().name);
  for (int i = 0; i < num_inputs; ++i) def->add_input(node.input(i).ToString());
  for (const Node* control : controls) def->add_input(absl::StrCat("^", control->name()));
  for (const auto& [name, value] : attrs) {
    absl::string_view plain = name;
    if (absl::ConsumePrefix(&plain, kOpaqueAttr)) {
      const std::string* bytes = value.get_if<std::string>();
      proto::AttrValue& attr = (*def->mutable_attr())[std::string(plain)];
      if (bytes != nullptr && attr.ParseFromString(*bytes)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(OpAndName(node), ": attribute '", name, "' is not a serialized AttrValue"));
    }
    absl::Status status = AttrValueToProto(value, &(*def->mutable_attr())[name]);
    if (!status.ok()) {
      return Annotate(status, absl::StrCat(OpAndName(node), ": attribute '", name, "'"));
    }
  }
  return absl::OkStatus();
}

// Reverses what NodeToProto does with OwnArg.
absl::Status RestoreOwnArg(const ArgDef& own, NodeRecord* record) {
  const auto it = record->attrs.find(OwnArgAttr(own));
  if (it == record->attrs.end()) return absl::OkStatus();
  AttrList names;
  if (const AttrList* list = it->second.get_if<AttrList>()) {
    names = *list;
  } else {
    names.push_back(it->second);
  }
  const auto first_control = absl::c_find_if(
      record->inputs, [](const std::string& in) { return absl::StartsWith(in, "^"); });
  std::vector<std::string> inputs(record->inputs.begin(), first_control);
  std::vector<std::string> controls(first_control, record->inputs.end());
  for (const AttrValue& name : names) {
    const std::string* text = name.get_if<std::string>();
    const absl::StatusOr<InputRef> ref =
        text != nullptr ? ParseInputRef(*text) : absl::InvalidArgumentError("not a string");
    if (!ref.ok() || ref->index == Use::kControl) {
      return absl::InvalidArgumentError(
          absl::StrCat("attribute '", it->first, "' must name an output, such as \"node:0\", got ",
                       Printable(name.ToString())));
    }
    inputs.push_back(*text);
    std::erase(controls, absl::StrCat("^", ref->node));
  }
  inputs.insert(inputs.end(), controls.begin(), controls.end());
  record->inputs = std::move(inputs);
  record->attrs.erase(it);
  record->attrs.insert_or_assign(own.number_attr, static_cast<int64_t>(names.size()));
  return absl::OkStatus();
}

// Returns true if no tensor here can hold elements of the dtype: text, 8-bit floats, quantized
// integers.
bool IsUnsupported(proto::DataType dtype) {
  return dtype == proto::DT_STRING || (dtype != proto::DT_INVALID && !IsKnownDataType(dtype));
}

bool IsUnsupported(const proto::TensorProto& tensor) {
  return IsUnsupported(tensor.dtype()) ||
         (tensor.dtype() != proto::DT_INVALID &&
          DataTypeSize(static_cast<DataType>(tensor.dtype())) == 0);
}

// Returns true if the value is a tensor of an unsupported dtype, or names such a dtype. An op with
// such an attribute is treated as unknown. `attr` is null for an attribute of an unknown op, whose
// dtypes may include DT_STRING.
bool HasUnsupportedDtype(const proto::AttrValue& value, const AttrDef* attr) {
  const bool may_list_text = attr == nullptr || attr->allowed.empty();
  const auto in_list = [&](int dtype) {
    return IsUnsupported(static_cast<proto::DataType>(dtype)) &&
           !(dtype == proto::DT_STRING && may_list_text);
  };
  const auto in_function = [](const proto::NameAttrList& function) {
    return absl::c_any_of(function.attr(), [](const auto& entry) {
      return HasUnsupportedDtype(entry.second, nullptr);
    });
  };
  const proto::AttrValue::ListValue& list = value.list();
  return (IsUnsupported(value.type()) && !(attr == nullptr && value.type() == proto::DT_STRING)) ||
         (value.has_tensor() && IsUnsupported(value.tensor())) || in_function(value.func()) ||
         absl::c_any_of(list.type(), in_list) ||
         absl::c_any_of(list.tensor(),
                        [](const proto::TensorProto& t) { return IsUnsupported(t); }) ||
         absl::c_any_of(list.func(), in_function);
}

// Converts a node. Adds its errors to `errors`; returns an error only if the node exceeds the
// limits.
absl::StatusOr<NodeRecord> RecordOf(const proto::NodeDef& def, const OpRegistry& registry,
                                    int64_t* repeated_bytes, ErrorList* errors) {
  NodeRecord record{def.name(), def.op(), {def.input().begin(), def.input().end()}, {}};
  auto where = [&] { return absl::StrCat(Printable(def.op()), "(", Printable(def.name()), ")"); };
  auto fail = [&](absl::string_view what) {
    errors->Add(absl::StrCat(where(), ": ", what));
    record.broken = true;
  };
  const OpDef* op = registry.Find(def.op());
  // Sorts the attributes: protobuf maps have no order, but errors and the use of `repeated_bytes`
  // need one.
  std::map<absl::string_view, const proto::AttrValue*> attrs;
  for (const auto& [name, value] : def.attr()) attrs.emplace(name, &value);
  for (const auto& [name, proto] : attrs) {
    const AttrDef* attr = op != nullptr ? op->FindAttr(name) : nullptr;
    if (op != nullptr && attr == nullptr && IsHint(name)) continue;
    if ((attr != nullptr || op == nullptr) && HasUnsupportedDtype(*proto, attr)) {
      record.attrs.emplace(absl::StrCat(kOpaqueAttr, name), proto->SerializeAsString());
      continue;
    }
    absl::StatusOr<AttrValue> value = AttrValueFromProto(*proto, repeated_bytes);
    if (value.ok()) {
      record.attrs.emplace(name, *std::move(value));
    } else if (absl::IsResourceExhausted(value.status())) {
      return Annotate(value.status(), absl::StrCat(where(), ": attribute '", Printable(name), "'"));
    } else {
      fail(absl::StrCat("attribute '", Printable(name), "': ", value.status().message()));
    }
  }
  const ArgDef* own = op != nullptr ? OwnArg(*op) : nullptr;
  if (own != nullptr) {
    const absl::Status status = RestoreOwnArg(*own, &record);
    if (!status.ok()) fail(status.message());
  }
  return record;
}

absl::StatusOr<FunctionLibrary> LibraryFromProto(const proto::FunctionDefLibrary& proto) {
  FunctionLibrary library;
  for (const proto::FunctionDef& function : proto.function()) {
    MF_ASSIGN_OR_RETURN(std::string bytes, SerializeDeterministically(function));
    MF_RETURN_IF_ERROR(library.Add(function.signature().name(), std::move(bytes)));
  }
  proto::FunctionDefLibrary gradients;
  *gradients.mutable_gradient() = proto.gradient();
  *gradients.mutable_registered_gradients() = proto.registered_gradients();
  MF_ASSIGN_OR_RETURN(std::string bytes, SerializeDeterministically(gradients));
  library.set_gradients(std::move(bytes));
  return library;
}

absl::Status LibraryToProto(const FunctionLibrary& library, proto::FunctionDefLibrary* proto) {
  if (!proto->ParseFromString(library.gradients())) {
    return absl::InvalidArgumentError("the library's gradients are not a FunctionDefLibrary");
  }
  for (const auto& [name, bytes] : library.functions()) {
    proto::FunctionDef* function = proto->add_function();
    if (!function->ParseFromString(bytes) || function->signature().name() != name) {
      return absl::InvalidArgumentError(absl::StrCat(
          "function '", Printable(name), "' in the library is not a FunctionDef of that name"));
    }
  }
  return absl::OkStatus();
}

// Builds the graph of a message that has passed ValidateGraphDef and contains no function calls.
absl::StatusOr<Graph> GraphOf(const proto::GraphDef& def, FunctionLibrary library,
                              const OpRegistry& registry, const GraphLimits& limits) {
  int64_t repeated_bytes = limits.max_bytes;
  ErrorList errors;
  std::vector<NodeRecord> records;
  records.reserve(def.node_size());
  for (const proto::NodeDef& node : def.node()) {
    MF_ASSIGN_OR_RETURN(records.emplace_back(), RecordOf(node, registry, &repeated_bytes, &errors));
    if (errors.full()) return errors.ToStatus();
  }
  return AssembleGraph(std::move(records), std::move(library), registry, std::move(errors));
}

}  // namespace

absl::StatusOr<proto::GraphDef> ToGraphDef(const Graph& graph) {
  MF_RETURN_IF_ERROR(graph.status());
  MF_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(graph));
  proto::GraphDef def;
  const FunctionLibrary* library = &graph.functions();
  FunctionLibrary extended;  // also holds the expansions of kOwnOp ops
  for (const Node* node : order) {
    MF_RETURN_IF_ERROR(NodeToProto(*node, def.add_node()));
    if (!node->op().has(kOwnOp)) continue;
    if (library != &extended) extended = *std::exchange(library, &extended);
    MF_RETURN_IF_ERROR(ExportOwnOp(*node, &extended, def.mutable_node(def.node_size() - 1)));
  }
  if (!library->functions().empty() || !library->gradients().empty()) {
    MF_RETURN_IF_ERROR(LibraryToProto(*library, def.mutable_library()));
  }
  def.mutable_versions()->set_producer(kGraphDefVersion);
  def.mutable_versions()->set_min_consumer(kGraphDefMinConsumer);
  return def;
}

absl::StatusOr<Graph> FromGraphDef(const proto::GraphDef& def, const OpRegistry& registry,
                                   const GraphLimits& limits) {
  MF_RETURN_IF_ERROR(ValidateGraphDef(def, limits));
  MF_RETURN_IF_ERROR(CheckOwnOps(def, registry));
  // The library keeps its names: its functions may call the renamed ones, and other readers rely on
  // them.
  MF_ASSIGN_OR_RETURN(FunctionLibrary library, LibraryFromProto(def.library()));
  const std::optional<proto::GraphDef> restored = RestoreOwnOps(def, registry);
  const proto::GraphDef& known = restored.has_value() ? *restored : def;
  if (!HasFunctionCalls(known, registry))
    return GraphOf(known, std::move(library), registry, limits);
  MF_ASSIGN_OR_RETURN(const proto::GraphDef inlined, InlineFunctionCalls(known, registry, limits));
  return GraphOf(inlined, std::move(library), registry, limits);
}

absl::StatusOr<proto::GraphDef> Graph::ToGraphDef() const {
  return ::mirrorflow::ToGraphDef(*this);
}

absl::StatusOr<Graph> Graph::FromGraphDef(const proto::GraphDef& def, const OpRegistry& registry) {
  return ::mirrorflow::FromGraphDef(def, registry);
}

}  // namespace mirrorflow
