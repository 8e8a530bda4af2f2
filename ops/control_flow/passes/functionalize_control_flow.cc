// SPDX-License-Identifier: Apache-2.0
#include "ops/control_flow/passes/functionalize_control_flow.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/compiler/passes/infer_and_fold.h"
#include "framework/compiler/passes/prune.h"
#include "framework/core/status.h"
#include "framework/graph/function_body.h"
#include "framework/graph/graph_limits.h"
#include "framework/graph/variable_handle.h"
#include "ops/binary.h"
#include "ops/control.h"
#include "ops/control_flow/loop_gradient.h"
#include "ops/control_flow/passes/known_branches.h"
#include "ops/variable.h"

namespace mirrorflow {
namespace {

// Returns the attributes that name the functions of a node, in the order of Compilation::bodies.
std::vector<std::string> FunctionAttrs(const OpDef& op) {
  std::vector<std::string> names;
  for (const AttrDef& attr : op.attrs) {
    if (attr.type == "func") names.push_back(attr.name);
  }
  return names;
}

// A variable that a node's functions use.
struct Lifted {
  std::string name;
  Output handle;  // the handle passed to the node
  bool written = false;
};

bool UsesVariable(const Node& node, absl::string_view name) {
  const OpRole role = node.op().role;
  return (role == OpRole::kRead || role == OpRole::kWrite) && TakesVariable(node, name);
}

// A read and the version that it sees, or a write and the version that it creates. As in a step, a
// read sees the last write that precedes it in the graph's order; version 0 is the value before all
// writes.
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

// Returns the value of the variable after the write, given the value before it.
absl::StatusOr<Output> Written(const Scope& scope, const Node& write, const Output& before) {
  const std::string& op = write.op().name;
  if (op == ops::kAssignVariable) return write.input(1);
  if (op == ops::kAssignAddVariable) return ops::AddV2(scope, before, write.input(1));
  if (op == ops::kAssignSubVariable) return ops::Sub(scope, before, write.input(1));
  return absl::UnimplementedError(absl::StrCat(
      OpAndName(write), " cannot update a variable inside a branch or loop; expected ",
      ops::kAssignVariable, ", ", ops::kAssignAddVariable, " or ", ops::kAssignSubVariable));
}

// Makes `variable` a new argument of the body. Returns its final value.
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
    for (const Use& use : node->uses()) absl::StrAppend(&users, " ", OpAndName(*use.user));
    return absl::UnimplementedError(absl::StrCat(
        "a function of a branch or loop can only read and assign variables that are passed "
        "to it; variable '",
        VariableName(*node), "' is used by", users));
  }
  return absl::OkStatus();
}

// The remaining budget for bodies. A limit is needed because functions that run functions can
// multiply without bound, and passes recurse into each of them.
struct Budget {
  int bodies = 1 << 14;                     // bodies that may still be instantiated
  int depth = 64;                           // further levels of nesting
  int64_t nodes = GraphLimits().max_nodes;  // total nodes that further bodies may have

  absl::Status TakeBody(const Graph& body) {
    nodes -= body.num_nodes();
    if (bodies-- > 0 && nodes >= 0) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat(
        "branches and loops run too many functions, including nested ones; expected at most ",
        Budget().bodies, " with ", Budget().nodes, " nodes"));
  }
};

struct Context {
  Enclosing around;
  Budget budget = {};
};

absl::StatusOr<bool> Functionalize(Compilation& c, Context& context);

// Instantiates the function in `attr` of a branch or loop for the node's arguments.
absl::StatusOr<FunctionBody> BodyOf(const Compilation& c, const Node& node, const std::string& attr,
                                    Budget& budget) {
  MF_ASSIGN_OR_RETURN(FunctionBody body,
                      InstantiateFunction(c.graph, node.attr<FunctionRef>(attr),
                                          absl::StrCat(node.name(), "/", attr),
                                          node.inputs().subspan(FirstArgument(node.op())), *c.ops));
  MF_RETURN_IF_ERROR(budget.TakeBody(body.graph));
  return body;
}

absl::Status CheckResults(const Node& node, absl::string_view function, bool is_condition,
                          absl::Span<const Output> results) {
  const int expected = is_condition ? 1 : node.num_outputs();
  if (static_cast<int>(results.size()) != expected) {
    return absl::InvalidArgumentError(
        absl::StrCat(function, " must return ", expected, " values, got ", results.size()));
  }
  for (int i = 0; i < expected && !is_condition; ++i) {
    if (results[i].dtype() == node.output_dtype(i)) continue;
    return absl::InvalidArgumentError(absl::StrCat("result ", i, " of ", function, " must be ",
                                                   DataTypeName(node.output_dtype(i)), ", got ",
                                                   DataTypeName(results[i].dtype())));
  }
  return absl::OkStatus();
}

class Functionalizer {
 public:
  Functionalizer(Compilation& c, Node* node, Context& context)
      : c_(c),
        node_(node),
        context_(context),
        loops_(node->op().role == OpRole::kLoop),
        args_(node->inputs().subspan(FirstArgument(node->op()))) {}

  absl::Status Run() {
    context_.around.nodes.push_back(node_);
    MF_RETURN_IF_ERROR(InstantiateBodies());
    context_.around.nodes.pop_back();
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
      MF_ASSIGN_OR_RETURN(FunctionBody function, BodyOf(c_, *node_, attr, context_.budget));
      auto body = std::make_unique<Compilation>();
      body->graph = std::move(function.graph);
      body->ops = c_.ops;
      body->kernels = c_.kernels;
      body->options = c_.options;
      body->shard = c_.shard;
      body->is_body = true;
      body->fetches = std::move(function.results);
      body->targets = std::move(function.targets);
      for (const Output& arg : function.args) {
        if (!IsHandle(arg)) body->feeds.push_back(arg);
      }
      bodies_.push_back(std::move(body));
      const bool is_condition = loops_ && bodies_.size() == 1;
      MF_RETURN_IF_ERROR(CheckResults(*node_, attr, is_condition, bodies_.back()->fetches));
      MF_RETURN_IF_ERROR(Prune().Run(*bodies_.back()).status());
      MF_RETURN_IF_ERROR(Functionalize(*bodies_.back(), context_).status());
    }
    return absl::OkStatus();
  }

  // Finds the variables that the functions use, and determines which of them they write.
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

  // Drops results that are handles. Each must be one of the node's input handles, so it need not be
  // returned.
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
      // Find all accesses before lifting any variable, because lifting removes edges.
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
              absl::StrCat("cond writes variable '", variable.name, "'; write it in the body"));
        }
        if (!is_condition && (loops_ || variable.written)) body->fetches.push_back(last);
      }
      body->RemoveDeadNodes();
      MF_RETURN_IF_ERROR(CheckHasNoVariables(*body));
    }
    return absl::OkStatus();
  }

  // Replaces the node with a node that takes no handles.
  absl::Status ReplaceNode() {
    // The reads must be ordered after everything that precedes the node.
    const Scope read_scope = c_.scope().WithControlDependencies(Predecessors(*node_));
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
    NodeBuilder builder =
        c_.scope().WithName(node_->name()).WithControlInputsOf(*node_).Build(node_->op());
    if (!loops_) {
      attrs.erase(node_->op().inputs[1].type_list_attr);
      builder.Input(node_->input(0));
    }
    builder.InputList(inputs);
    for (auto& [name, value] : attrs) builder.Attr(name, std::move(value));
    Node* pure = std::move(builder).Finish();
    MF_RETURN_IF_ERROR(c_.graph.status());
    MF_RETURN_IF_ERROR(AssignWritten(pure));
    c_.bodies.emplace(pure->id(), std::move(bodies_));
    return absl::OkStatus();
  }

  // Assigns the written variables after `pure`, and redirects the node's users to `pure`, ordered
  // after these writes.
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
    c_.ReplaceOperation(node_, pure);
    c_.targets.insert(c_.targets.end(), writes.begin(), writes.end());
    return absl::OkStatus();
  }

  Compilation& c_;
  Node* const node_;
  Context& context_;
  const bool loops_;
  const absl::Span<const Output> args_;
  Compilation::Bodies bodies_;
  std::vector<Lifted> variables_;
};

// Inlines the branch that an If takes if the branch is known. Returns whether it is known.
absl::StatusOr<bool> TakeKnownBranch(Compilation& c, Node* node, Context& context) {
  const Tensor predicate = KnownValue(c, node->input(0));
  if (predicate.dtype() != DT_BOOL || predicate.shape().rank() != 0) return false;
  const char* attr = *predicate.flat<bool>().data() ? "then_branch" : "else_branch";
  MF_ASSIGN_OR_RETURN(FunctionBody body, BodyOf(c, *node, attr, context.budget));
  MF_RETURN_IF_ERROR(CheckResults(*node, attr, /*is_condition=*/false, body.results));
  MF_RETURN_IF_ERROR(TakeBranch(c, node, std::move(body)));
  return true;
}

// Handles a branch or loop; `context.budget.depth` is the number of levels left.
absl::Status FunctionalizeNode(Compilation& c, Node* node, Context& context) {
  if (context.budget.depth == 0) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "branches and loops nest too deeply; expected at most ", Budget().depth, " levels"));
  }
  --context.budget.depth;
  if (node->op().role == OpRole::kBranch) {
    MF_ASSIGN_OR_RETURN(const bool taken, TakeKnownBranch(c, node, context));
    if (taken) return absl::OkStatus();
  }
  return Functionalizer(c, node, context).Run();
}

bool SameFunction(const Node& loop, const char* attr, const Node& with_history,
                  const char* instead) {
  return loop.attrs().find(attr)->second == with_history.attrs().find(instead)->second;
}

bool DoesTheSame(const Node& with_history, const Node& loop) {
  if (&loop == &with_history || loop.op().role != OpRole::kLoop) return false;
  if (loop.num_inputs() > with_history.num_inputs()) return false;
  // In a graph from a file, the loop with histories can depend on the loop that it would replace.
  for (const Output& further : with_history.inputs().subspan(loop.num_inputs())) {
    if (further.node == &loop) return false;
  }
  return std::equal(loop.inputs().begin(), loop.inputs().end(), with_history.inputs().begin()) &&
         SameFunction(loop, "cond", with_history, kInsteadOfCond) &&
         SameFunction(loop, "body", with_history, kInsteadOfBody);
}

// Replaces each loop with the equivalent loop that also keeps histories for a gradient, if such a
// loop exists (ops/control_flow/loop_gradient.h). Returns whether it replaced any.
bool MergeLoops(Compilation& c) {
  bool changed = false;
  for (Node* with_history : c.graph.Nodes()) {
    const bool is_one = with_history->op().role == OpRole::kLoop &&
                        with_history->has_attr(kInsteadOfCond) &&
                        with_history->has_attr(kInsteadOfBody);
    if (!is_one || with_history->num_inputs() == 0) continue;
    // The loop to replace, if it exists, uses the same inputs.
    Node* loop = nullptr;
    for (const Use& use : with_history->input(0).node->uses()) {
      if (DoesTheSame(*with_history, *use.user)) loop = use.user;
    }
    if (loop == nullptr) continue;
    for (int i = 0; i < loop->num_outputs(); ++i) {
      c.ReplaceValue(loop->output(i), with_history->output(i));
    }
    c.ReplaceOperation(loop, with_history);
    changed = true;
  }
  if (changed) c.RemoveDeadNodes();
  return changed;
}

absl::StatusOr<bool> Functionalize(Compilation& c, Context& context) {
  bool changed = MergeLoops(c);
  const int depth = context.budget.depth;
  // An inlined branch adds nodes one level deeper, which may in turn be branches.
  std::vector<int> level(c.graph.id_limit(), 0);  // by node id
  for (NodeId id = 0; id < c.graph.id_limit(); ++id) {
    Node* node = c.graph.node(id);
    if (node == nullptr) continue;
    absl::Status status;
    if (node->op().role == OpRole::kHasValue) {
      status = AnswerHasValue(c, node, context.around);
    } else if (IsControlFlow(node->op()) && c.bodies.count(id) == 0) {
      context.budget.depth = depth - level[id];
      status = FunctionalizeNode(c, node, context);
    } else {
      continue;
    }
    if (!status.ok()) return Annotate(status, OpAndName(*node));
    level.resize(c.graph.id_limit(), level[id] + 1);
    changed = true;
  }
  context.budget.depth = depth;
  c.graph.functions() = FunctionLibrary();  // every function that is called has a body
  return c.RemoveDeadNodes() || changed;
}

}  // namespace

absl::StatusOr<bool> FunctionalizeControlFlow::Run(Compilation& c) {
  Context context{{c}};
  return Functionalize(c, context);
}

}  // namespace mirrorflow
