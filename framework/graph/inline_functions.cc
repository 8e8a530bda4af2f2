// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/inline_functions.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "framework/core/names.h"
#include "framework/core/status.h"
#include "framework/graph/graph_assembler.h"

namespace mirrorflow {
namespace {

using Attrs = google::protobuf::Map<std::string, proto::AttrValue>;

// Names grow with call depth, so their total size grows with the square of the depth.
constexpr size_t kMaxPrefix = 256;
// The maximum nesting depth of functions in the attributes of functions, as in tensor_proto.h.
constexpr int kMaxAttrDepth = 50;
// Exceeds every node's output count.
constexpr int64_t kMaxIndex = std::numeric_limits<int>::max();

// Returns how many functions enclose the innermost attribute.
int DepthOf(const proto::AttrValue& attr) {
  int depth = 0;
  for (const auto& [name, inner] : attr.func().attr()) {
    depth = std::max(depth, 1 + DepthOf(inner));
  }
  for (const proto::NameAttrList& function : attr.list().func()) {
    for (const auto& [name, inner] : function.attr()) depth = std::max(depth, 1 + DepthOf(inner));
  }
  return depth;
}

bool IsCallOp(absl::string_view op) {
  return op == "PartitionedCall" || op == "StatefulPartitionedCall";
}

// Returns the name of the called function, which a call op specifies in its attribute `f`.
absl::StatusOr<std::string> Callee(const proto::NodeDef& call) {
  if (!IsCallOp(call.op())) return call.op();
  const auto f = call.attr().find("f");
  if (f != call.attr().end() && f->second.has_func()) return f->second.func().name();
  return absl::InvalidArgumentError("attribute 'f' is missing; expected the function to call");
}

// Returns the value of an attribute, or null.
using AttrOf = absl::FunctionRef<const proto::AttrValue*(const std::string& name)>;

// Returns the number of tensors that an argument stands for, or -1 if the attribute that determines
// it is missing. Takes the names of the argument's count and dtype list attributes.
int64_t TensorsOf(const std::string& number_attr, const std::string& type_list_attr,
                  AttrOf attr_of) {
  const bool is_list = number_attr.empty();
  if (is_list && type_list_attr.empty()) return 1;
  const proto::AttrValue* attr = attr_of(is_list ? type_list_attr : number_attr);
  if (attr == nullptr) return -1;
  return is_list ? attr->list().type_size() : attr->i();
}

class Inliner {
 public:
  Inliner(const proto::GraphDef& def, const OpRegistry& registry, const GraphLimits& limits)
      : def_(def), registry_(registry), limits_(limits) {
    for (const proto::FunctionDef& f : def.library().function()) {
      functions_.emplace(f.signature().name(), &f);
    }
  }

  absl::StatusOr<proto::GraphDef> Run() {
    for (const proto::NodeDef& node : def_.node()) {
      taken_.insert(node.name());
      taken_heads_.insert(absl::string_view(node.name()).substr(0, node.name().find('/')));
    }
    for (const proto::NodeDef& node : def_.node()) Place(node);
    while (!calls_.empty()) {
      const proto::NodeDef call = std::move(calls_.front());
      calls_.pop_front();
      const absl::Status status = Inline(call);
      if (!status.ok()) {
        return Annotate(status,
                        absl::StrCat(Printable(call.op()), "(", Printable(call.name()), ")"));
      }
    }
    for (proto::NodeDef& node : *result_.mutable_node()) {
      for (std::string& input : *node.mutable_input()) {
        input = Source(input);
        MF_RETURN_IF_ERROR(Charge(0, static_cast<int64_t>(input.size())));
      }
    }
    *result_.mutable_versions() = def_.versions();
    return std::move(result_);
  }

  bool HasCalls() const {
    return absl::c_any_of(def_.node(), [this](const auto& node) { return IsCall(node); });
  }

 private:
  // Returns whether the op of a node is a call of the function with this name. A name in the
  // registry denotes that op, even if the library has a function of that name for readers without
  // the op.
  bool IsFunction(const std::string& op) const {
    return functions_.contains(op) && registry_.Find(op) == nullptr;
  }

  bool IsCall(const proto::NodeDef& node) const {
    return IsCallOp(node.op()) || IsFunction(node.op());
  }

  static int64_t BytesOf(const std::vector<std::string>& inputs) {
    int64_t bytes = 0;
    for (const std::string& input : inputs) bytes += static_cast<int64_t>(input.size()) + 32;
    return bytes;
  }

  // Counts the attributes and inputs of calls against the limits, because a long one can be copied
  // any number of times.
  absl::Status Charge(int64_t nodes, int64_t bytes) {
    constexpr int64_t kMany = int64_t{1} << 61;
    nodes_ += std::min(nodes, kMany);
    bytes_ += std::min(bytes, kMany);
    if (nodes_ <= limits_.max_nodes && bytes_ <= limits_.max_bytes) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat(
        "the attributes and inputs of calls are too large; expected at most ", limits_.max_nodes,
        " nodes and ", limits_.max_bytes, " bytes, got ", nodes_, " and ", bytes_));
  }

  void Place(proto::NodeDef node) {
    if (!IsCall(node)) {
      *result_.add_node() = std::move(node);
    } else {
      calls_.push_back(std::move(node));
    }
  }

  // Returns a prefix that makes the names of the body's nodes differ from all existing names.
  std::string FreePrefix(const proto::NodeDef& call, const proto::FunctionDef& function) {
    std::string prefix = absl::StrCat(call.name(), "/");
    const auto& nodes = function.node_def();
    const bool fits = call.name().size() < kMaxPrefix &&
                      std::none_of(nodes.begin(), nodes.end(), [&](const auto& node) {
                        return taken_.contains(absl::StrCat(prefix, node.name()));
                      });
    while (!fits) {
      const std::string head = absl::StrCat("inlined_", ++num_short_prefixes_);
      if (!taken_heads_.contains(head)) return absl::StrCat(head, "/");
    }
    return prefix;
  }

  // A function bound to one call, ready to be turned into nodes of the graph.
  struct Instance {
    const proto::FunctionDef* function = nullptr;
    Attrs attrs;  // those that the call supplies
    std::string prefix;
    absl::flat_hash_map<std::string, std::vector<std::string>> args;  // inputs of the call, by name
    absl::flat_hash_map<absl::string_view, const proto::NodeDef*> body;
    std::vector<std::string> controls;  // the call's control inputs
  };

  template <typename Arg>
  static int64_t CountOf(const Arg& arg, const Instance& instance) {
    return TensorsOf(arg.number_attr(), arg.type_list_attr(),
                     [&](const std::string& name) -> const proto::AttrValue* {
                       const auto attr = instance.attrs.find(name);
                       return attr != instance.attrs.end() ? &attr->second : nullptr;
                     });
  }

  absl::StatusOr<Instance> Bind(const proto::NodeDef& call) {
    Instance instance;
    MF_ASSIGN_OR_RETURN(const std::string callee, Callee(call));
    const auto function = functions_.find(callee);
    if (function == functions_.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the library has no function '", Printable(callee), "'"));
    }
    instance.function = function->second;
    const auto f = call.attr().find("f");
    instance.attrs =
        IsCallOp(call.op()) && f != call.attr().end() ? f->second.func().attr() : call.attr();
    for (const auto& attr : instance.function->signature().attr()) {
      if (instance.attrs.contains(attr.name()) || !attr.has_default_value()) continue;
      instance.attrs[attr.name()] = attr.default_value();
    }
    instance.prefix = FreePrefix(call, *instance.function);
    std::vector<std::string> inputs;
    for (const std::string& input : call.input()) {
      (absl::StartsWith(input, "^") ? instance.controls : inputs).push_back(input);
    }
    size_t next = 0;
    for (const auto& arg : instance.function->signature().input_arg()) {
      const int64_t count = CountOf(arg, instance);
      if (count < 0 || count > static_cast<int64_t>(inputs.size() - next)) {
        next = inputs.size() + 1;
        break;
      }
      instance.args[arg.name()].assign(inputs.begin() + next, inputs.begin() + next + count);
      next += count;
    }
    if (next != inputs.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("function '", Printable(callee), "': wrong number of arguments; expected ",
                       instance.function->signature().input_arg_size(), ", got ", inputs.size()));
    }
    for (const proto::NodeDef& node : instance.function->node_def()) {
      instance.body.emplace(node.name(), &node);
    }
    return instance;
  }

  absl::Status Inline(const proto::NodeDef& call) {
    MF_ASSIGN_OR_RETURN(const Instance instance, Bind(call));
    for (const proto::NodeDef& node : instance.function->node_def()) {
      proto::NodeDef copy = node;
      copy.set_name(absl::StrCat(instance.prefix, node.name()));
      taken_.insert(copy.name());
      for (auto& [name, attr] : *copy.mutable_attr()) {
        MF_RETURN_IF_ERROR(Annotate(Substitute(instance, &attr), Printable(node.name())));
      }
      bool uses_the_body = false;
      for (std::string& input : *copy.mutable_input()) {
        uses_the_body |= !instance.args.contains(input.substr(0, input.find(':')));
        MF_ASSIGN_OR_RETURN(input, Translate(instance, input));
        MF_RETURN_IF_ERROR(Charge(0, static_cast<int64_t>(input.size())));
      }
      // A node that uses another node of the body already runs after the call's control inputs.
      if (!uses_the_body) {
        MF_RETURN_IF_ERROR(Charge(0, BytesOf(instance.controls)));
        for (const std::string& control : instance.controls) copy.add_input(control);
      }
      Place(std::move(copy));
    }
    return Return(call, instance);
  }

  // Replaces placeholder attributes with the values that the call supplies. `depth` functions
  // enclose the attribute.
  absl::Status Substitute(const Instance& instance, proto::AttrValue* attr, int depth = 0) {
    if (attr->has_func()) {
      for (auto& [name, inner] : *attr->mutable_func()->mutable_attr()) {
        MF_RETURN_IF_ERROR(Substitute(instance, &inner, depth + 1));
      }
    }
    if (attr->value_case() != proto::AttrValue::kPlaceholder) return absl::OkStatus();
    const auto given = instance.attrs.find(attr->placeholder());
    if (given == instance.attrs.end()) {
      return absl::InvalidArgumentError(absl::StrCat("attribute '", Printable(attr->placeholder()),
                                                     "' is not supplied by the call"));
    }
    if (depth + DepthOf(given->second) > kMaxAttrDepth) {
      return absl::InvalidArgumentError(absl::StrCat("attribute '", Printable(attr->placeholder()),
                                                     "': nesting deeper than ", kMaxAttrDepth));
    }
    MF_RETURN_IF_ERROR(Charge(0, static_cast<int64_t>(given->second.ByteSizeLong())));
    const proto::AttrValue value = given->second;
    *attr = value;
    return absl::OkStatus();
  }

  // Translates an input from the notation of bodies (`arg`, `args:1`, `node:output:0`, `^node`) to
  // the notation of graphs.
  absl::StatusOr<std::string> Translate(const Instance& instance, absl::string_view input) const {
    auto fail = [&](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat("'", Printable(input), "' ", what));
    };
    if (absl::ConsumePrefix(&input, "^")) {
      if (!instance.body.contains(input)) return fail("does not name a node of the function");
      return absl::StrCat("^", instance.prefix, input);
    }
    const std::vector<absl::string_view> parts = absl::StrSplit(input, ':');
    int64_t index = 0;
    if (parts.size() > 1 &&
        (!absl::SimpleAtoi(parts.back(), &index) || index < 0 || index > kMaxIndex)) {
      return fail("is not an input; expected ARG, ARG:INDEX, NODE:OUTPUT:INDEX or ^NODE");
    }
    if (const auto arg = instance.args.find(parts[0]);
        arg != instance.args.end() && parts.size() <= 2) {
      if (index < static_cast<int64_t>(arg->second.size())) return arg->second[index];
      return fail("names an argument that does not exist");
    }
    const auto node = instance.body.find(parts[0]);
    if (node == instance.body.end())
      return fail("does not name an argument or node of the function");
    if (parts.size() != 3) return fail("does not name an output; expected NODE:OUTPUT:INDEX");
    MF_ASSIGN_OR_RETURN(const int64_t first, FirstOutput(instance, *node->second, parts[1]));
    return absl::StrCat(instance.prefix, parts[0], ":", first + index);
  }

  // Returns the index of the first output called `name` among all outputs of a node in a body.
  absl::StatusOr<int64_t> FirstOutput(const Instance& instance, const proto::NodeDef& node,
                                      absl::string_view name) const {
    if (IsCallOp(node.op())) return 0;  // its only output is a list
    auto attr_of = [&](const std::string& key) -> const proto::AttrValue* {
      const auto attr = node.attr().find(key);
      if (attr == node.attr().end()) return nullptr;
      if (attr->second.value_case() != proto::AttrValue::kPlaceholder) return &attr->second;
      const auto given = instance.attrs.find(attr->second.placeholder());
      return given != instance.attrs.end() ? &given->second : nullptr;
    };
    int64_t first = 0;
    auto skip = [&](const std::string& number_attr, const std::string& type_list_attr) {
      const int64_t count = TensorsOf(number_attr, type_list_attr, attr_of);
      first = std::min(first + std::clamp<int64_t>(count, 0, kMaxIndex), kMaxIndex);
    };
    if (IsFunction(node.op())) {
      for (const auto& output : functions_.at(node.op())->signature().output_arg()) {
        if (output.name() == name) return first;
        skip(output.number_attr(), output.type_list_attr());
      }
    } else {
      const OpDef* op = registry_.Find(node.op());
      if (op == nullptr) return 0;  // a harmless guess: no step can need an unknown op
      for (const ArgDef& output : op->outputs) {
        if (output.name == name) return first;
        skip(output.number_attr, output.type_list_attr);
      }
    }
    return absl::InvalidArgumentError(absl::StrCat(Printable(node.op()), "(",
                                                   Printable(node.name()), ") has no output '",
                                                   Printable(name), "'"));
  }

  // Returns the dtypes of the call's results.
  absl::StatusOr<std::vector<proto::DataType>> OutputTypes(const proto::NodeDef& call,
                                                           const Instance& instance) {
    std::vector<proto::DataType> types;
    for (const auto& output : instance.function->signature().output_arg()) {
      proto::AttrValue type;
      type.set_type(output.type());
      if (!output.type_attr().empty()) {
        type.set_placeholder(output.type_attr());
        MF_RETURN_IF_ERROR(Substitute(instance, &type));
      }
      const int64_t count = CountOf(output, instance);
      if (count < 0) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the call does not specify the count of output '", Printable(output.name()), "'"));
      }
      MF_RETURN_IF_ERROR(Charge(count, 0));
      const bool is_list = output.number_attr().empty() && !output.type_list_attr().empty();
      for (int64_t i = 0; i < count; ++i) {
        types.push_back(
            is_list
                ? static_cast<proto::DataType>(
                      instance.attrs.at(output.type_list_attr()).list().type(static_cast<int>(i)))
                : type.type());
      }
    }
    const auto declared = call.attr().find("Tout");
    if (IsCallOp(call.op()) && declared != call.attr().end() &&
        declared->second.list().type_size() != static_cast<int>(types.size())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the call expects ", declared->second.list().type_size(), " results, but function '",
          Printable(instance.function->signature().name()), "' returns ", types.size()));
    }
    return types;
  }

  // Records which values replace the call's outputs, and adds the node that stands for the call.
  absl::Status Return(const proto::NodeDef& call, const Instance& instance) {
    MF_ASSIGN_OR_RETURN(const std::vector<proto::DataType> types, OutputTypes(call, instance));
    std::vector<std::string> values;
    for (const auto& output : instance.function->signature().output_arg()) {
      const auto ret = instance.function->ret().find(output.name());
      if (ret == instance.function->ret().end()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the function returns no value for its output '", Printable(output.name()), "'"));
      }
      MF_ASSIGN_OR_RETURN(const std::string first, Translate(instance, ret->second));
      const int64_t count = CountOf(output, instance);
      MF_RETURN_IF_ERROR(Charge(0, count * BytesOf({first})));
      if (count == 1) {
        values.push_back(first);
        continue;
      }
      MF_ASSIGN_OR_RETURN(const InputRef ref, ParseInputRef(first));
      for (int64_t i = 0; i < count; ++i) {
        values.push_back(absl::StrCat(ref.node, ":", ref.index + i));
      }
    }
    std::vector<std::string> controls = instance.controls;
    for (const auto& [name, node] : instance.function->control_ret()) {
      MF_ASSIGN_OR_RETURN(controls.emplace_back(), Translate(instance, absl::StrCat("^", node)));
    }
    std::sort(controls.begin(), controls.end());  // protobuf maps have no fixed order
    controls.erase(std::unique(controls.begin(), controls.end()), controls.end());
    const int64_t copies = static_cast<int64_t>(values.size()) + 1;
    MF_RETURN_IF_ERROR(Charge(0, std::min(copies * BytesOf(controls), limits_.max_bytes + 1)));

    std::vector<std::string>& sources = outputs_of_calls_[call.name()];
    auto identity = [&](const std::string& name, const std::string& value, proto::DataType type) {
      proto::NodeDef& node = *result_.add_node();
      node.set_name(name);
      node.set_op("Identity");
      node.add_input(value);
      for (const std::string& control : controls) node.add_input(control);
      (*node.mutable_attr())["T"].set_type(type);
    };
    for (size_t i = 0; i < values.size(); ++i) {
      // A value without control inputs needs no separate node. A resource must be connected
      // directly to its users.
      if (controls.empty() || types[i] == proto::DT_RESOURCE) {
        sources.push_back(values[i]);
      } else if (values.size() == 1) {
        sources.push_back(absl::StrCat(call.name(), ":0"));
      } else {
        sources.push_back(absl::StrCat(instance.prefix, "results/", i, ":0"));
        identity(absl::StrCat(instance.prefix, "results/", i), values[i], types[i]);
      }
    }
    if (values.size() == 1) {
      identity(call.name(), values[0], types[0]);
      return absl::OkStatus();
    }
    proto::NodeDef& node = *result_.add_node();
    node.set_name(call.name());
    node.set_op(values.empty() ? "NoOp" : "IdentityN");
    for (const std::string& source : sources) node.add_input(source);
    for (const std::string& control : controls) node.add_input(control);
    for (const proto::DataType type : types) {
      (*node.mutable_attr())["T"].mutable_list()->add_type(type);
    }
    return absl::OkStatus();
  }

  // Resolves an input that is a call's output to the value that the call returns, which may in turn
  // be another call's output. Results are cached, so a long chain is followed only once.
  std::string Source(const std::string& input) {
    std::vector<std::string*> passed;
    std::string source = input;
    while (passed.size() <= outputs_of_calls_.size()) {  // a longer chain is a cycle of calls
      const absl::StatusOr<InputRef> ref = ParseInputRef(source);
      if (!ref.ok() || ref->index < 0) break;
      const auto call = outputs_of_calls_.find(ref->node);
      if (call == outputs_of_calls_.end()) break;
      if (ref->index >= static_cast<int>(call->second.size())) break;  // the assembler reports it
      std::string& next = call->second[ref->index];
      if (next == absl::StrCat(ref->node, ":", ref->index)) break;  // the call's own node
      passed.push_back(&next);
      source = next;
    }
    for (std::string* on_the_way : passed) *on_the_way = source;
    return source;
  }

  const proto::GraphDef& def_;
  const OpRegistry& registry_;
  const GraphLimits limits_;
  absl::flat_hash_map<std::string, const proto::FunctionDef*> functions_;
  absl::flat_hash_set<std::string> taken_;  // names of nodes
  absl::flat_hash_set<absl::string_view>
      taken_heads_;                   // the names in `def_`, up to the first slash
  std::deque<proto::NodeDef> calls_;  // not yet inlined
  absl::flat_hash_map<std::string, std::vector<std::string>> outputs_of_calls_;
  int num_short_prefixes_ = 0;
  int64_t nodes_ = 0, bytes_ = 0;  // see Charge
  proto::GraphDef result_;
};

}  // namespace

bool HasFunctionCalls(const proto::GraphDef& def, const OpRegistry& registry) {
  return Inliner(def, registry, {}).HasCalls();
}

absl::StatusOr<proto::GraphDef> InlineFunctionCalls(const proto::GraphDef& def,
                                                    const OpRegistry& registry,
                                                    const GraphLimits& limits) {
  return Inliner(def, registry, limits).Run();
}

}  // namespace mirrorflow
