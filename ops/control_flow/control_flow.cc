// SPDX-License-Identifier: Apache-2.0
#include "ops/control_flow/control_flow.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/function_body.h"
#include "framework/graph/gradients.h"
#include "framework/graph/list_info.h"
#include "framework/graph/shape_inference.h"
#include "framework/graph/variable_handle.h"
#include "ops/binary.h"
#include "ops/constant.h"
#include "ops/control.h"
#include "ops/control_flow/function_gradient.h"
#include "ops/control_flow/loop_gradient.h"
#include "ops/registry.h"
#include "ops/unary.h"
#include "ops/variable.h"

namespace mirrorflow {
namespace {

constexpr char kValues[] =
    ": list({half, bfloat16, float, double, int32, int64, uint8, bool, resource, variant}) >= 0";
constexpr absl::string_view kInferredInside =
    "PropagateSharding derives the shardings of its outputs from its functions";

// Sets the output shapes that the node lists; all others are unknown. The result dtypes are checked
// when the functions are instantiated.
absl::Status OutputShapes(ShapeContext& c) {
  const AttrList& shapes = c.attr<AttrList>("output_shapes");
  if (!shapes.empty() && static_cast<int>(shapes.size()) != c.num_outputs()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "attribute 'output_shapes' must have ", c.num_outputs(), " shapes, got ", shapes.size()));
  }
  for (int i = 0; i < c.num_outputs(); ++i) {
    c.set_output(i, shapes.empty() ? Shape::UnknownRank() : shapes[i].get<Shape>());
  }
  return absl::OkStatus();
}

// A loop does not change its handles, but its lists can grow.
absl::Status WhileShape(ShapeContext& c) {
  MF_RETURN_IF_ERROR(OutputShapes(c));
  for (int i = 0; i < c.num_outputs(); ++i) {
    if (c.node().output_dtype(i) == DT_VARIANT) {
      SetList(c, i, ListInput(c, i).OfAnyLength());
    }
    if (c.node().output_dtype(i) != DT_RESOURCE) continue;
    c.set_handle(i, c.handle_dtype(i), c.handle_shape(i));
  }
  return absl::OkStatus();
}

// Returns the gradient of one branch, a function of the node's inputs and of each valid dy. The
// function has one result for each input that has a gradient.
absl::StatusOr<FunctionRef> BranchGradient(const GradContext& c, absl::string_view branch) {
  const absl::Span<const Output> inputs = c.op.inputs().subspan(1);
  const std::string name = absl::StrCat(c.op.name(), "_", branch, "_grad");
  MF_ASSIGN_OR_RETURN(
      FunctionBody body,
      InstantiateForGradient(c.scope.graph(), c.op.attr<FunctionRef>(branch), name, inputs));
  const auto once = [](const OpDef& op) { return op.role == OpRole::kWrite || op.has(kRandom); };
  MF_ASSIGN_OR_RETURN(const std::string does_once, FindInside(body, AllOps(), once));
  if (!does_once.empty()) {
    return absl::UnimplementedError(
        absl::StrCat(branch, " writes a variable or draws random numbers in ", does_once,
                     ", and the gradient, which recomputes the branch, would do so again; move the "
                     "node outside the branch"));
  }
  const Scope scope(&body.graph);
  std::vector<Output> ys, grad_ys;
  for (size_t i = 0; i < c.dy.size(); ++i) {
    if (!c.dy[i].valid()) continue;
    const Output dy = GradientArgument(c.scope.graph(), c.dy[i], scope.shape(body.results[i]),
                                       absl::StrCat(name, "/dy_", i), &body);
    body.args.push_back(dy);
    ys.push_back(body.results[i]);
    grad_ys.push_back(dy);
  }
  std::vector<Output> xs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (TakesGradient(c.scope.graph(), inputs[i])) xs.push_back(body.args[i]);
  }
  MF_ASSIGN_OR_RETURN(body.results, Gradients(AllOps(), scope, ys, xs, {.grad_ys = grad_ys}));
  for (size_t i = 0; i < xs.size(); ++i) {
    if (body.results[i].valid()) continue;
    const bool is_handle = xs[i].dtype() == DT_RESOURCE;
    body.results[i] = ops::ZerosLike(scope, is_handle ? ops::ReadVariableOp(scope, xs[i]) : xs[i]);
  }
  MF_RETURN_IF_ERROR(scope.status());
  body.targets.clear();
  return DefineFunction(body, name, c.scope.graph());
}

absl::StatusOr<std::vector<Output>> IfGrad(const GradContext& c) {
  MF_ASSIGN_OR_RETURN(FunctionRef then_branch, BranchGradient(c, "then_branch"));
  MF_ASSIGN_OR_RETURN(FunctionRef else_branch, BranchGradient(c, "else_branch"));
  std::vector<Output> inputs(c.op.inputs().begin() + 1, c.op.inputs().end());
  AttrList dtypes, shapes;
  for (const Output& in : inputs) {
    if (!TakesGradient(c.scope.graph(), in)) continue;
    const ValueInfo& info = c.scope.graph().values().at(in);
    const bool is_handle = in.dtype() == DT_RESOURCE;
    dtypes.emplace_back(is_handle ? info.handle_dtype : in.dtype());
    shapes.emplace_back(is_handle ? info.handle_shape : info.shape);
  }
  for (const Output& dy : c.dy) {
    if (dy.valid()) inputs.push_back(dy);
  }
  const size_t num_gradients = dtypes.size();
  Node* node = ops::Build(c.scope, c.op.op().name, {c.op.input(0)})
                   .InputList(inputs)
                   .Attr("then_branch", std::move(then_branch))
                   .Attr("else_branch", std::move(else_branch))
                   .Attr("Tout", std::move(dtypes))
                   .Attr("output_shapes", std::move(shapes))
                   .Finish();
  const std::vector<Output> gradients = ops::OutputsOf(node, num_gradients);
  std::vector<Output> dx(1);
  size_t next = 0;
  for (const Output& in : c.op.inputs().subspan(1)) {
    dx.push_back(TakesGradient(c.scope.graph(), in) ? gradients[next++] : Output());
  }
  return dx;
}

}  // namespace

void RegisterControlFlow(OpRegistry& ops) {
  for (const bool stateful : {false, true}) {
    const uint32_t traits = stateful ? uint32_t{kStateful} : 0;
    ops.Define(stateful ? "If" : "StatelessIf")
        .Doc("output = cond ? then_branch(input) : else_branch(input)")
        .Input("cond: Tcond")
        .Input("input: Tin")
        .Output("output: Tout")
        .Attr("Tcond: {half, bfloat16, float, double, int32, int64, uint8, bool}")
        .Attr(absl::StrCat("Tin", kValues))
        .Attr(absl::StrCat("Tout", kValues))
        .Attr("then_branch: func")
        .Attr("else_branch: func")
        .Attr("output_shapes: list(shape) = []")
        .Role(OpRole::kBranch)
        .Traits(traits)
        .Shape(OutputShapes)
        .Gathers(kInferredInside)
        .Gradient(IfGrad);
    ops.Define(stateful ? "While" : "StatelessWhile")
        .Doc("output = input; while (cond(output)) output = body(output)")
        .Input("input: T")
        .Output("output: T")
        .Attr(absl::StrCat("T", kValues))
        .Attr("cond: func")
        .Attr("body: func")
        .Attr("output_shapes: list(shape) = []")
        .Attr("parallel_iterations: int = 10")
        .Role(OpRole::kLoop)
        .Traits(traits)
        .Shape(WhileShape)
        .Gathers(kInferredInside)
        .Gradient(LoopGradient);
  }
}

namespace ops {
namespace {

// A library function that was built from C++.
struct BuiltFunction {
  FunctionRef ref;
  std::vector<DataType> dtypes;  // dtypes of the results
  std::vector<mirrorflow::Shape> shapes;
  bool stateful = false;
};

bool HasEffect(const OpDef& op) {
  return op.has(kStateful) && op.role != OpRole::kVariable && op.role != OpRole::kRead &&
         !op.has(kRandom);
}

absl::StatusOr<BuiltFunction> BuildFunction(const Scope& caller, absl::string_view name,
                                            absl::Span<const Output> args, FunctionBuilder build) {
  MF_RETURN_IF_ERROR(caller.status());
  FunctionBody body;
  const Scope scope(&body.graph);
  for (size_t i = 0; i < args.size(); ++i) {
    if (!args[i].valid()) return absl::InvalidArgumentError("an argument is an invalid output");
    const Scope arg_scope = scope.WithName(absl::StrCat("arg_", i));
    if (args[i].dtype() == DT_RESOURCE) {
      MF_ASSIGN_OR_RETURN(const std::string variable, VariableName(args[i]));
      const ValueInfo& info = caller.graph().values().at(args[i]);
      body.args.push_back(
          VarHandleOp(arg_scope, info.handle_dtype, info.handle_shape, {.shared_name = variable}));
    } else {
      body.args.push_back(Placeholder(arg_scope, args[i].dtype(), caller.shape(args[i])));
    }
    if (args[i].dtype() == DT_VARIANT &&
        scope.ok()) {  // keeps the element kind, but not the length
      const ListInfo outer = ListInfo::From(caller.graph().values().at(args[i]));
      body.graph.values().Set(body.args.back(), outer.OfAnyLength().ToValueInfo());
    }
  }
  body.results = build(scope, body.args);
  MF_RETURN_IF_ERROR(scope.status());
  BuiltFunction built;
  for (const Output& result : body.results) {
    if (!result.valid() || body.graph.FindNode(result.node->name()) != result.node) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a result of ", name, " is not an output of its graph; pass outer values as inputs"));
    }
    built.dtypes.push_back(result.dtype());
    built.shapes.push_back(scope.shape(result));
  }
  for (Node* node : body.graph.Nodes()) {
    built.stateful |= node->op().has(kStateful);
    if (HasEffect(node->op())) body.targets.push_back(node);
  }
  MF_ASSIGN_OR_RETURN(built.ref, DefineFunction(body, name, caller.graph()));
  return built;
}

// Returns a shape with the dimensions that are equal in `a` and `b`; all others are unknown.
mirrorflow::Shape CommonShape(const mirrorflow::Shape& a, const mirrorflow::Shape& b) {
  if (a.unknown_rank() || b.unknown_rank() || a.rank() != b.rank()) {
    return mirrorflow::Shape::UnknownRank();
  }
  mirrorflow::Shape common = a;
  for (int d = 0; d < a.rank(); ++d) {
    if (a.dim(d) != b.dim(d)) common.set_dim(d, kUnknownDim);
  }
  return common;
}

std::string DtypesText(absl::Span<const DataType> dtypes) {
  return AttrValue::List<DataType>(dtypes).ToString();
}

absl::StatusOr<std::vector<Output>> TryIf(const Scope& scope, const Output& cond,
                                          absl::Span<const Output> inputs, FunctionBuilder then,
                                          FunctionBuilder otherwise) {
  MF_ASSIGN_OR_RETURN(BuiltFunction yes, BuildFunction(scope, "then_branch", inputs, then));
  MF_ASSIGN_OR_RETURN(BuiltFunction no, BuildFunction(scope, "else_branch", inputs, otherwise));
  if (yes.dtypes != no.dtypes) {
    return absl::InvalidArgumentError(absl::StrCat("If: the branches must return the same dtypes; ",
                                                   "then_branch: ", DtypesText(yes.dtypes),
                                                   ", else_branch: ", DtypesText(no.dtypes)));
  }
  for (size_t i = 0; i < yes.shapes.size(); ++i) {
    yes.shapes[i] = CommonShape(yes.shapes[i], no.shapes[i]);
  }
  Node* node = Build(scope, yes.stateful || no.stateful ? "If" : "StatelessIf", {cond})
                   .InputList(inputs)
                   .Attr("Tout", AttrValue::List<DataType>(yes.dtypes))
                   .Attr("then_branch", std::move(yes.ref))
                   .Attr("else_branch", std::move(no.ref))
                   .Attr("output_shapes", AttrValue::List<mirrorflow::Shape>(yes.shapes))
                   .Finish();
  return OutputsOf(node, yes.dtypes.size());
}

absl::StatusOr<std::vector<Output>> TryWhile(const Scope& scope, absl::Span<const Output> inputs,
                                             FunctionBuilder cond, FunctionBuilder body) {
  MF_ASSIGN_OR_RETURN(BuiltFunction continues, BuildFunction(scope, "cond", inputs, cond));
  MF_ASSIGN_OR_RETURN(BuiltFunction next, BuildFunction(scope, "body", inputs, body));
  if (continues.dtypes.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("While: cond must have one result, got ", continues.dtypes.size()));
  }
  std::vector<DataType> dtypes;
  for (const Output& in : inputs) dtypes.push_back(in.dtype());
  if (next.dtypes != dtypes) {
    return absl::InvalidArgumentError(
        absl::StrCat("While: body must return the dtypes of the inputs; expected ",
                     DtypesText(dtypes), ", got ", DtypesText(next.dtypes)));
  }
  Node* node = Build(scope, continues.stateful || next.stateful ? "While" : "StatelessWhile")
                   .InputList(inputs)
                   .Attr("cond", std::move(continues.ref))
                   .Attr("body", std::move(next.ref))
                   .Attr("output_shapes", AttrValue::List<mirrorflow::Shape>(next.shapes))
                   .Finish();
  return OutputsOf(node, dtypes.size());
}

// Builds a loop whose first value counts the iterations.
absl::StatusOr<std::vector<Output>> TryLimitedWhile(const Scope& scope,
                                                    absl::Span<const Output> inputs,
                                                    FunctionBuilder cond, FunctionBuilder body,
                                                    int64_t limit) {
  if (limit < 0 || limit > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("While: maximum_iterations must be from 0 to 2147483647, got ", limit));
  }
  std::vector<Output> values = {ScalarConst(scope.ForOperand("iteration"), DT_INT32, 0)};
  values.insert(values.end(), inputs.begin(), inputs.end());
  const auto continues = [&](const Scope& s, absl::Span<const Output> args) {
    std::vector<Output> results = cond(s, args.subspan(1));
    if (results.size() != 1) return results;  // While reports the error
    const Output below = Less(s, args[0], ScalarConst(s, DT_INT32, static_cast<double>(limit)));
    return std::vector<Output>{LogicalAnd(s, below, results[0])};
  };
  const auto next = [&](const Scope& s, absl::Span<const Output> args) {
    std::vector<Output> results = body(s, args.subspan(1));
    results.insert(results.begin(), AddV2(s, args[0], ScalarConst(s, DT_INT32, 1)));
    return results;
  };
  MF_ASSIGN_OR_RETURN(values, TryWhile(scope, values, continues, next));
  values.erase(values.begin());
  return values;
}

// Returns `outputs`. If it is an error, records the error in the scope and returns invalid outputs.
std::vector<Output> OrInvalid(const Scope& scope, absl::Span<const Output> inputs,
                              absl::StatusOr<std::vector<Output>> outputs) {
  if (outputs.ok()) return *std::move(outputs);
  scope.Fail(outputs.status());
  return std::vector<Output>(std::max<size_t>(inputs.size(), 1));
}

}  // namespace

std::vector<Output> If(const Scope& scope, Output cond, absl::Span<const Output> inputs,
                       FunctionBuilder then_branch, FunctionBuilder else_branch) {
  return OrInvalid(scope, inputs, TryIf(scope, cond, inputs, then_branch, else_branch));
}

std::vector<Output> While(const Scope& scope, absl::Span<const Output> inputs, FunctionBuilder cond,
                          FunctionBuilder body, const WhileOptions& options) {
  return OrInvalid(scope, inputs,
                   options.maximum_iterations
                       ? TryLimitedWhile(scope, inputs, cond, body, *options.maximum_iterations)
                       : TryWhile(scope, inputs, cond, body));
}

}  // namespace ops
}  // namespace mirrorflow
