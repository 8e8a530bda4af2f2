// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/functionalize_control_flow.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/compiler/passes/prune.h"
#include "framework/core/status.h"
#include "framework/graph/function_body.h"
#include "framework/graph/variable_handle.h"
#include "ops/binary.h"
#include "ops/control.h"
#include "ops/variable.h"

namespace mirrorflow {
namespace {

std::string Where(const Node& node) { return absl::StrCat(node.op().name, "(", node.name(), ")"); }

// The attributes that name the functions of a node, in the order of Compilation::bodies.
std::vector<std::string> FunctionAttrs(const OpDef& op) {
  std::vector<std::string> names;
  for (const AttrDef& attr : op.attrs) {
    if (attr.type == "func") names.push_back(attr.name);
  }
  return names;
}

// A variable that the functions of a node use.
struct Lifted {
  std::string name;
  Output handle;  // as the node gets it
  bool written = false;
};

bool UsesVariable(const Node& node, absl::string_view name) {
  if (node.op().role != OpRole::kRead && node.op().role != OpRole::kWrite) return false;
  return std::any_of(node.inputs().begin(), node.inputs().end(), [&](const Output& in) {
    if (in.dtype() != DT_RESOURCE) return false;
    const absl::StatusOr<std::string> used = VariableName(in);
    return used.ok() && *used == name;
  });
}

// A read, and the version that it sees: the last write that it is ordered after, as in a step, 0
// being the value before. Or a write, and the version that it makes.
struct Access {
  Node* node;
  int version;
};

std::vector<Access> FindAccesses(const Compilation& body, const std::vector<Node*>& order,
                                 absl::string_view variable) {
  std::vector<Access> accesses;
  std::vector<int> seen(body.graph.id_limit(), 0);  // by node id
  int writes = 0;
  for (Node* node : order) {
    int& version = seen[node->id()];
    for (const Output& in : node->inputs()) version = std::max(version, seen[in.node->id()]);
    for (const Node* in : node->control_inputs()) version = std::max(version, seen[in->id()]);
    if (!UsesVariable(*node, variable)) continue;
    if (node->op().role == OpRole::kWrite) version = ++writes;
    accesses.push_back({node, version});
  }
  return accesses;
}

// What the variable holds when the write is done, given what it held before.
absl::StatusOr<Output> Written(const Scope& scope, const Node& write, const Output& before) {
  const std::string& op = write.op().name;
  if (op == ops::kAssignVariable) return write.input(1);
  if (op == ops::kAssignAddVariable) return ops::AddV2(scope, before, write.input(1));
  if (op == ops::kAssignSubVariable) return ops::Sub(scope, before, write.input(1));
  return absl::UnimplementedError(absl::StrCat(
      Where(write), " updates a variable in a function of a branch or loop; expected ",
      ops::kAssignVariable, ", ", ops::kAssignAddVariable, " or ", ops::kAssignSubVariable));
}

// Makes `variable` a new argument of the body; returns what it holds in the end.
absl::StatusOr<Output> LiftOut(Compilation& body, const Lifted& variable,
                               const std::vector<Access>& accesses) {
  const Output argument = ops::Placeholder(body.scope().WithName("variable"),
                                           VariableOf(variable.handle).attr<DataType>("dtype"),
                                           VariableOf(variable.handle).attr<Shape>("shape"));
  MF_RETURN_IF_ERROR(body.graph.status());
  body.feeds.push_back(argument);
  std::vector<Output> versions = {argument};
  for (const auto& [node, version] : accesses) {
    if (node->op().role == OpRole::kWrite) {
      MF_ASSIGN_OR_RETURN(const Output value, Written(body.scope(), *node, versions.back()));
      MF_RETURN_IF_ERROR(body.graph.status());
      versions.push_back(value);
    } else {
      body.ReplaceValue(node->output(0), versions[version]);
    }
    body.graph.ReplaceControlUses(node, versions[version].node);
    body.targets.erase(std::remove(body.targets.begin(), body.targets.end(), node),
                       body.targets.end());
  }
  return versions.back();
}

absl::Status CheckHasNoVariables(const Compilation& body) {
  for (const Node* node : body.graph.Nodes()) {
    if (node->op().role != OpRole::kVariable) continue;
    std::string users;
    for (const Use& use : node->uses()) absl::StrAppend(&users, " ", Where(*use.user));
    return absl::UnimplementedError(
        absl::StrCat("a function of a branch or loop may only read and assign variables that it is "
                     "given; variable '",
                     VariableName(*node), "' is used by", users));
  }
  return absl::OkStatus();
}

// Functions that run functions can multiply without end, and the passes go into them by recursion.
struct Budget {
  int bodies = 1 << 14;  // that there may still be
  int depth = 64;        // to which bodies may still nest
};

absl::StatusOr<bool> Functionalize(Compilation& c, Budget& budget);

class Functionalizer {
 public:
  Functionalizer(Compilation& c, Node* node, Budget& budget)
      : c_(c),
        node_(node),
        budget_(budget),
        loops_(node->op().role == OpRole::kLoop),
        args_(node->inputs().subspan(FirstArgument(node->op()))) {}

  absl::Status Run() {
    if (budget_.depth == 0) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "branches and loops nest too deep; expected ", Budget().depth, " levels at most"));
    }
    --budget_.depth;
    MF_RETURN_IF_ERROR(InstantiateBodies());
    ++budget_.depth;
    MF_RETURN_IF_ERROR(FindVariables());
    MF_RETURN_IF_ERROR(LiftVariables());
    if (std::any_of(args_.begin(), args_.end(), IsHandle)) return ReplaceNode();
    c_.bodies.emplace(node_->id(), std::move(bodies_));
    return absl::OkStatus();
  }

 private:
  static bool IsHandle(const Output& value) { return value.dtype() == DT_RESOURCE; }

  absl::Status InstantiateBodies() {
    for (const std::string& attr : FunctionAttrs(node_->op())) {
      if (budget_.bodies-- == 0) {
        return absl::ResourceExhaustedError(
            absl::StrCat("branches and loops run too many functions, those in functions counted; "
                         "expected ",
                         Budget().bodies, " at most"));
      }
      const std::string name = absl::StrCat(node_->name(), "/", attr);
      MF_ASSIGN_OR_RETURN(
          FunctionBody function,
          InstantiateFunction(c_.graph, node_->attr<FunctionRef>(attr), name, args_, *c_.ops));
      auto body = std::make_unique<Compilation>();
      body->graph = std::move(function.graph);
      body->ops = c_.ops;
      body->kernels = c_.kernels;
      body->options = c_.options;
      body->is_body = true;
      body->fetches = std::move(function.results);
      body->targets = std::move(function.targets);
      for (const Output& arg : function.args) {
        if (!IsHandle(arg)) body->feeds.push_back(arg);
      }
      bodies_.push_back(std::move(body));
      MF_RETURN_IF_ERROR(CheckResults(attr));
      MF_RETURN_IF_ERROR(Prune().Run(*bodies_.back()).status());
      MF_RETURN_IF_ERROR(Functionalize(*bodies_.back(), budget_).status());
    }
    return absl::OkStatus();
  }

  absl::Status CheckResults(absl::string_view function) const {
    const std::vector<Output>& results = bodies_.back()->fetches;
    const bool is_condition = loops_ && bodies_.size() == 1;
    const int expected = is_condition ? 1 : node_->num_outputs();
    if (static_cast<int>(results.size()) != expected) {
      return absl::InvalidArgumentError(
          absl::StrCat(function, " must return ", expected, " values, got ", results.size()));
    }
    for (int i = 0; i < expected && !is_condition; ++i) {
      if (results[i].dtype() == node_->output_dtype(i)) continue;
      return absl::InvalidArgumentError(absl::StrCat("result ", i, " of ", function, " must be ",
                                                     DataTypeName(node_->output_dtype(i)), ", got ",
                                                     DataTypeName(results[i].dtype())));
    }
    return absl::OkStatus();
  }

  // The variables that the functions use, and which of them they write.
  absl::Status FindVariables() {
    for (const Output& arg : args_) {
      if (!IsHandle(arg)) continue;
      MF_ASSIGN_OR_RETURN(const std::string name, VariableName(arg));
      const auto is_known = [&](const Lifted& v) { return v.name == name; };
      if (std::any_of(variables_.begin(), variables_.end(), is_known)) continue;
      Lifted variable{name, arg};
      bool used = false;
      for (const auto& body : bodies_) {
        for (const Node* node : body->graph.Nodes()) {
          if (!UsesVariable(*node, name)) continue;
          used = true;
          variable.written |= node->op().role == OpRole::kWrite;
        }
      }
      if (used) variables_.push_back(std::move(variable));
    }
    return absl::OkStatus();
  }

  // A result that is a handle must be the one that the node got: it needs no place then.
  absl::Status DropHandles(Compilation& body, bool is_condition) {
    std::vector<Output> values;
    for (size_t i = 0; i < body.fetches.size(); ++i) {
      const Output& result = body.fetches[i];
      if (!IsHandle(result)) {
        values.push_back(result);
        continue;
      }
      MF_ASSIGN_OR_RETURN(const std::string name, VariableName(result));
      if (loops_ && !is_condition && *VariableName(args_[i]) == name) continue;
      return absl::UnimplementedError(absl::StrCat("result ", i, " is variable '", name,
                                                   "'; variables cannot be chosen while a step "
                                                   "runs"));
    }
    body.fetches = std::move(values);
    return absl::OkStatus();
  }

  absl::Status LiftVariables() {
    for (const auto& body : bodies_) {
      const bool is_condition = loops_ && body == bodies_.front();
      MF_RETURN_IF_ERROR(DropHandles(*body, is_condition));
      // All before the first is lifted: that takes edges away.
      MF_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(body->graph));
      std::vector<std::vector<Access>> accesses;
      for (const Lifted& variable : variables_) {
        accesses.push_back(FindAccesses(*body, order, variable.name));
      }
      for (size_t v = 0; v < variables_.size(); ++v) {
        const Lifted& variable = variables_[v];
        MF_ASSIGN_OR_RETURN(const Output last, LiftOut(*body, variable, accesses[v]));
        if (is_condition && last != body->feeds.back()) {
          return absl::UnimplementedError(
              absl::StrCat("cond writes variable '", variable.name, "'; expected body to do it"));
        }
        if (!is_condition && (loops_ || variable.written)) body->fetches.push_back(last);
      }
      body->RemoveDeadNodes();
      MF_RETURN_IF_ERROR(CheckHasNoVariables(*body));
    }
    return absl::OkStatus();
  }

  // Puts a node without handles in the place of the one that has some.
  absl::Status ReplaceNode() {
    std::vector<Operation> before;
    for (Node* control : node_->control_inputs()) before.push_back({control});
    const Scope scope = c_.scope().WithControlDependencies(before);
    // What the node is ordered after its reads are ordered after.
    for (const Output& in : node_->inputs()) {
      const bool has_past = in.node->num_inputs() > 0 || !in.node->control_inputs().empty();
      if (has_past) before.push_back({in.node});
    }
    const Scope read_scope = c_.scope().WithControlDependencies(before);
    std::vector<Output> inputs;
    for (const Output& arg : args_) {
      if (!IsHandle(arg)) inputs.push_back(arg);
    }
    for (const Lifted& variable : variables_) {
      inputs.push_back(ops::ReadVariableOp(
          read_scope.WithName(absl::StrCat(node_->name(), "/read")), variable.handle));
    }
    AttrMap attrs = node_->attrs();
    attrs["output_shapes"] = AttrList();
    AttrList dtypes;
    for (const Output& result : bodies_.back()->fetches) dtypes.emplace_back(result.dtype());
    attrs[node_->op().outputs[0].type_list_attr] = std::move(dtypes);
    NodeBuilder builder = scope.WithName(node_->name()).Build(node_->op());
    if (!loops_) {
      attrs.erase(node_->op().inputs[1].type_list_attr);
      std::move(builder).Input(node_->input(0));
    }
    std::move(builder).InputList(inputs);
    for (auto& [name, value] : attrs) std::move(builder).Attr(name, std::move(value));
    Node* pure = std::move(builder).Finish();
    MF_RETURN_IF_ERROR(c_.graph.status());
    MF_RETURN_IF_ERROR(AssignWritten(pure));
    c_.bodies.emplace(pure->id(), std::move(bodies_));
    return absl::OkStatus();
  }

  // The node's uses become those of `pure`, and come after the writes behind it.
  absl::Status AssignWritten(Node* pure) {
    int value = 0;
    for (int i = 0; i < node_->num_outputs(); ++i) {
      value += node_->output_dtype(i) != DT_RESOURCE;
    }
    std::vector<Node*> writes;
    for (const Lifted& variable : variables_) {
      const int result = value;
      if (loops_ || variable.written) ++value;
      if (!variable.written) continue;
      writes.push_back(
          ops::AssignVariableOp(c_.scope().WithName(absl::StrCat(pure->name(), "/assign")),
                                variable.handle, pure->output(result))
              .node);
      MF_RETURN_IF_ERROR(c_.graph.status());
    }
    const std::vector<Use> uses(node_->uses().begin(), node_->uses().end());
    for (const Use& use : uses) {
      for (Node* write : writes) c_.graph.AddControlEdge(write, use.user);
    }
    int next = 0;
    for (int i = 0; i < node_->num_outputs(); ++i) {
      const bool is_handle = node_->output_dtype(i) == DT_RESOURCE;
      c_.ReplaceValue(node_->output(i), is_handle ? args_[i] : pure->output(next++));
    }
    c_.graph.ReplaceControlUses(node_, pure);
    std::replace(c_.targets.begin(), c_.targets.end(), node_, pure);
    c_.targets.insert(c_.targets.end(), writes.begin(), writes.end());
    return absl::OkStatus();
  }

  Compilation& c_;
  Node* const node_;
  Budget& budget_;
  const bool loops_;
  const absl::Span<const Output> args_;
  Compilation::Bodies bodies_;
  std::vector<Lifted> variables_;
};

absl::StatusOr<bool> Functionalize(Compilation& c, Budget& budget) {
  bool changed = false;
  for (Node* node : c.graph.Nodes()) {
    if (!IsControlFlow(node->op())) continue;
    const absl::Status status = Functionalizer(c, node, budget).Run();
    if (!status.ok()) return Annotate(status, Where(*node));
    changed = true;
  }
  c.graph.functions() = FunctionLibrary();  // all that is called of it has a body now
  return c.RemoveDeadNodes() || changed;
}

}  // namespace

absl::StatusOr<bool> FunctionalizeControlFlow::Run(Compilation& c) {
  Budget budget;
  return Functionalize(c, budget);
}

}  // namespace mirrorflow
