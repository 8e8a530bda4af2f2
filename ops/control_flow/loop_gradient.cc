// SPDX-License-Identifier: Apache-2.0
#include "ops/control_flow/loop_gradient.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/function_body.h"
#include "framework/graph/gradients.h"
#include "framework/graph/shape_inference.h"
#include "ops/binary.h"
#include "ops/constant.h"
#include "ops/control.h"
#include "ops/control_flow/function_gradient.h"
#include "ops/control_flow/tensor_list.h"
#include "ops/registry.h"
#include "ops/shape_ops.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

using Outputs = std::vector<Output>;

constexpr char kRandomInside[] = "_random_inside";

Output Integer(const Scope& scope, int32_t value) {
  return ops::Const(scope, Tensor::Scalar<int32_t>(value));
}

Output Zeros(const Scope& scope, DataType dtype, const Shape& shape) {
  const Output zero = ops::ScalarConst(scope, dtype, 0);
  return ops::Fill(scope, ops::VectorConst(scope, shape.dims()), zero);
}

class LoopDifferentiator {
 public:
  explicit LoopDifferentiator(const GradContext& c)
      : c_(c), graph_(c.scope.graph()), loop_(c.op), name_(absl::StrCat(c.op.name(), "_grad")) {}

  absl::StatusOr<Outputs> Run() {
    MF_ASSIGN_OR_RETURN(forward_, Instantiate("body"));
    MF_ASSIGN_OR_RETURN(backward_, Instantiate("body"));
    MF_RETURN_IF_ERROR(CheckForward());
    MF_RETURN_IF_ERROR(DifferentiateBody());
    MF_RETURN_IF_ERROR(BringForwardValues());
    MF_ASSIGN_OR_RETURN(Node * with_history, BuildForward());
    return BuildBackward(*with_history);
  }

 private:
  absl::StatusOr<FunctionBody> Instantiate(absl::string_view attr) const {
    return InstantiateForGradient(graph_, loop_.attr<FunctionRef>(attr),
                                  absl::StrCat(name_, "/", attr), loop_.inputs());
  }

  absl::Status CheckForward() {
    const auto writes = [](const OpDef& op) { return op.role == OpRole::kWrite; };
    MF_ASSIGN_OR_RETURN(const std::string writer, FindInside(forward_, AllOps(), writes));
    if (!writer.empty()) {
      return absl::UnimplementedError(
          absl::StrCat("body writes a variable in ", writer,
                       ", so the loop has no gradient; return the value from the body and assign "
                       "it after the loop"));
    }
    const auto draws = [](const OpDef& op) { return op.has(kRandom); };
    MF_ASSIGN_OR_RETURN(const std::string random, FindInside(forward_, AllOps(), draws));
    random_inside_ = !random.empty();
    if (!random_inside_) return absl::OkStatus();
    // Only one loop with histories can replace this loop; a second one would draw different random
    // numbers.
    for (const Use& use : loop_.input(0).node->uses()) {
      const Node& other = *use.user;
      const bool is_instead =
          other.has_attr(kRandomInside) && other.has_attr(kInsteadOfBody) &&
          other.attrs().find(kInsteadOfBody)->second == loop_.attrs().find("body")->second &&
          std::equal(loop_.inputs().begin(), loop_.inputs().end(), other.inputs().begin());
      if (!is_instead) continue;
      return absl::UnimplementedError(
          absl::StrCat("cannot build a second gradient of a loop that draws random numbers in ",
                       random, "; call Gradients once, with all differentiated values in ys"));
    }
    return absl::OkStatus();
  }

  bool IsHandle(int i) const { return loop_.input(i).dtype() == DT_RESOURCE; }
  bool Differentiates(int i) const { return TakesGradient(graph_, loop_.input(i)); }

  // Adds the body's gradient to backward_. For each value that has a gradient, the body's gradient
  // maps the gradient after an iteration to the gradient before that iteration.
  absl::Status DifferentiateBody() {
    first_gradient_ = backward_.graph.id_limit();
    const Scope scope(&backward_.graph);
    Outputs ys, grad_ys, xs;
    d_args_.resize(loop_.num_inputs());
    d_results_.resize(loop_.num_inputs());
    for (int i = 0; i < loop_.num_inputs(); ++i) {
      if (!Differentiates(i)) continue;
      const Output x = backward_.args[i];
      const ValueInfo& info = backward_.graph.values().at(x);
      const std::string name = absl::StrCat(name_, "/d_", i);
      d_args_[i] =
          IsHandle(i) ? ops::Placeholder(scope.WithName(name), info.handle_dtype, info.handle_shape)
                      : GradientArgument(backward_.graph, x, info.shape, name, &backward_);
      MF_RETURN_IF_ERROR(scope.status());
      xs.push_back(x);
      if (IsHandle(i)) continue;
      ys.push_back(backward_.results[i]);
      grad_ys.push_back(d_args_[i]);
    }
    MF_ASSIGN_OR_RETURN(const Outputs dx, Gradients(AllOps(), scope, ys, xs, {.grad_ys = grad_ys}));
    size_t next = 0;
    for (int i = 0; i < loop_.num_inputs(); ++i) {
      if (!Differentiates(i)) continue;
      Output d = dx[next++];
      if (IsHandle(i)) {  // every iteration reads the variable
        d = d.valid() ? ops::AddV2(scope, d_args_[i], d) : d_args_[i];
      } else if (!d.valid()) {
        d = ops::ZerosLike(scope, d_args_[i]);
      }
      d_results_[i] = d;
    }
    return scope.status();
  }

  // Returns whether value i is the same in all iterations.
  bool Stays(int i) const { return StripViews(forward_.results[i]) == forward_.args[i]; }

  // Replaces the forward values that the gradient uses with arguments of backward_. Values that
  // change are popped from their histories; all others are the same in every iteration.
  absl::Status BringForwardValues() {
    const Scope scope(&backward_.graph);
    absl::flat_hash_map<Output, Output> brought;
    for (Node* node : backward_.graph.Nodes()) {
      if (node->id() < first_gradient_) continue;
      if (node->has_attr(kRandomInside)) {
        return absl::UnimplementedError(absl::StrCat(
            OpAndName(*node),
            " would draw new random numbers, because an inner loop is recomputed for its gradient; "
            "draw the numbers outside the inner loop"));
      }
      for (int i = 0; i < node->num_inputs(); ++i) {
        const Output value = node->input(i);
        const Node& made_by = *value.node;
        const bool is_forward = made_by.id() < first_gradient_;
        if (!is_forward || value.dtype() == DT_RESOURCE) continue;
        if (made_by.op().role == OpRole::kConstant) {
          const std::vector<Node*> before(made_by.control_inputs().begin(),
                                          made_by.control_inputs().end());
          for (Node* control : before) backward_.graph.RemoveControlEdge(control, value.node);
          continue;
        }
        Output& stand_in = brought[value];
        if (!stand_in.valid()) {
          MF_ASSIGN_OR_RETURN(stand_in, Bring(scope, value));
        }
        backward_.graph.SetInput(node, i, stand_in);
      }
    }
    for (Output& d : d_results_) {
      if (!d.valid() || d.node->id() >= first_gradient_) continue;
      MF_ASSIGN_OR_RETURN(d, Bring(scope, d));
    }
    return scope.status();
  }

  absl::StatusOr<Output> Bring(const Scope& scope, const Output& value) {
    if (value.dtype() == DT_VARIANT) return BringList(scope, value);
    const auto arg = std::find(backward_.args.begin(), backward_.args.end(), value);
    const int i = static_cast<int>(arg - backward_.args.begin());
    const Shape& shape = backward_.graph.values().shape(value);
    if (arg != backward_.args.end() && Stays(i)) {
      same_.emplace_back(ops::Placeholder(scope, value.dtype(), shape), i);
      return same_.back().first;
    }
    const Output in_forward = {forward_.graph.FindNode(value.node->name()), value.index};
    if (value.node->op().role == OpRole::kRead && shape.IsFullyDefined()) {
      reads_.push_back({in_forward, shape, ops::Placeholder(scope, value.dtype(), shape)});
      return reads_.back().arg;
    }
    const Output history = ops::Placeholder(scope, DT_VARIANT, Shape());
    const Outputs popped = ops::TensorListPopBack(scope, history, value.dtype());
    MF_RETURN_IF_ERROR(scope.status());
    histories_.push_back({in_forward, shape, history, popped[0]});
    return popped[1];
  }

  // The gradient uses only the length and element shape of a list. If the body pushes and pops
  // nothing, these are the same as for the loop's input.
  absl::StatusOr<Output> BringList(const Scope& scope, const Output& list) {
    Output like = list;
    const auto keeps_length = [](const OpDef& op) {
      return op.name == ops::kTensorListSetItem ||
             op.name == ops::kTensorListScatterIntoExistingList || op.has(kView);
    };
    while (keeps_length(like.node->op()) && like.node->num_inputs() > 0) {
      like = like.node->input(0);
    }
    const auto arg = std::find(backward_.args.begin(), backward_.args.end(), like);
    if (arg == backward_.args.end()) {
      return absl::UnimplementedError(absl::StrCat(
          "the gradient needs list ", list.ToString(),
          " of each iteration, which would be a list of lists; make the list an input of "
          "the loop"));
    }
    const int i = static_cast<int>(arg - backward_.args.begin());
    const Output stand_in = ops::Placeholder(scope, DT_VARIANT, Shape());
    MF_RETURN_IF_ERROR(scope.status());
    same_.emplace_back(stand_in, i);
    return stand_in;
  }

  // Builds a copy of the loop that also keeps histories and counts iterations.
  absl::StatusOr<Node*> BuildForward() {
    const Scope inside(&forward_.graph);
    MF_ASSIGN_OR_RETURN(FunctionBody condition, Instantiate("cond"));
    const Scope in_condition(&condition.graph);
    Outputs inputs(loop_.inputs().begin(), loop_.inputs().end());
    AttrList shapes = loop_.attr<AttrList>("output_shapes");
    auto add = [&](const Output& first, const Shape& shape) {
      inputs.push_back(first);
      if (!shapes.empty()) shapes.emplace_back(shape);
      forward_.args.push_back(ops::Placeholder(inside, first.dtype(), shape));
      condition.args.push_back(ops::Placeholder(in_condition, first.dtype(), shape));
      return forward_.args.back();
    };
    const Output count = add(Integer(c_.scope, 0), Shape());
    forward_.results.push_back(ops::AddV2(inside, count, Integer(inside, 1)));
    for (const History& history : histories_) {
      const std::string name = absl::StrCat(loop_.name(), "_history");
      const Output list =
          add(ops::EmptyTensorList(c_.scope.WithName(name), history.value.dtype(), history.element),
              Shape());
      forward_.results.push_back(ops::TensorListPushBack(inside, list, history.value));
    }
    for (const Read& read : reads_) {
      add(Zeros(c_.scope, read.value.dtype(), read.shape), read.shape);
      forward_.results.push_back(read.value);
    }
    MF_RETURN_IF_ERROR(c_.scope.status());
    MF_RETURN_IF_ERROR(inside.status());
    MF_RETURN_IF_ERROR(in_condition.status());
    MF_ASSIGN_OR_RETURN(FunctionRef cond_ref,
                        DefineFunction(condition, absl::StrCat(name_, "_cond"), graph_));
    MF_ASSIGN_OR_RETURN(FunctionRef body_ref,
                        DefineFunction(forward_, absl::StrCat(name_, "_body"), graph_));
    NodeBuilder builder = c_.scope.WithName(absl::StrCat(loop_.name(), "_forward"))
                              .WithControlInputsOf(loop_)
                              .Build(loop_.op())
                              .InputList(inputs)
                              .Attr("cond", std::move(cond_ref))
                              .Attr("body", std::move(body_ref))
                              .Attr("output_shapes", std::move(shapes))
                              .Attr(kInsteadOfCond, loop_.attr<FunctionRef>("cond"))
                              .Attr(kInsteadOfBody, loop_.attr<FunctionRef>("body"));
    if (random_inside_) builder.Attr(kRandomInside, true);
    Node* node = std::move(builder).Finish();
    MF_RETURN_IF_ERROR(c_.scope.status());
    return node;
  }

  // Builds the loop that runs backward; returns the gradients of the loop's inputs.
  absl::StatusOr<Outputs> BuildBackward(const Node& forward) {
    const int num_values = loop_.num_inputs();
    const Scope inside(&backward_.graph);
    Outputs inputs, args, results;
    auto add = [&](const Output& first, const Output& arg, const Output& result) {
      inputs.push_back(first);
      args.push_back(arg);
      results.push_back(result);
    };
    const Output done = ops::Placeholder(inside, DT_INT32, Shape());
    add(Integer(c_.scope, 0), done, ops::AddV2(inside, done, Integer(inside, 1)));
    const Output count = ops::Placeholder(inside, DT_INT32, Shape());
    int output = num_values;  // index of the next output of the forward loop
    add(forward.output(output++), count, count);
    for (int i = 0; i < num_values; ++i) {
      if (Differentiates(i)) add(FirstGradient(forward, i), d_args_[i], d_results_[i]);
    }
    for (const History& history : histories_) {
      add(forward.output(output++), history.list, history.popped);
    }
    for (const Read& read : reads_) add(forward.output(output++), read.arg, read.arg);
    for (const auto& [arg, i] : same_) {
      // The element shape of a list may become known only inside the loop.
      add(arg.dtype() == DT_VARIANT ? forward.output(i) : loop_.input(i), arg, arg);
    }
    for (int i = 0; i < num_values; ++i) {
      if (IsHandle(i)) add(loop_.input(i), backward_.args[i], backward_.args[i]);
    }
    MF_RETURN_IF_ERROR(inside.status());
    backward_.args = args;
    backward_.results = results;
    backward_.targets.clear();
    std::vector<Node*> wanted;
    for (const Outputs& values : {args, results}) {
      for (const Output& value : values) wanted.push_back(value.node);
    }
    backward_.graph.RemoveUnneeded(wanted);
    MF_ASSIGN_OR_RETURN(const Node* node, CallBackward(inputs));
    Outputs dx(num_values);
    output = 2;
    for (int i = 0; i < num_values; ++i) {
      if (Differentiates(i)) dx[i] = node->output(output++);
    }
    return dx;
  }

  absl::StatusOr<const Node*> CallBackward(const Outputs& inputs) {
    const std::vector<Node*> nodes = backward_.graph.Nodes();
    const bool stateful = std::any_of(nodes.begin(), nodes.end(), [](const Node* node) {
      return node->op().has(kStateful) && node->op().role != OpRole::kVariable;
    });
    MF_ASSIGN_OR_RETURN(FunctionRef cond_ref, CountingCondition());
    MF_ASSIGN_OR_RETURN(FunctionRef body_ref,
                        DefineFunction(backward_, absl::StrCat(name_, "_body_grad"), graph_));
    AttrList shapes;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Output& arg = backward_.args[i];
      const bool is_known_inside = i >= 2 && arg.dtype() != DT_RESOURCE;
      shapes.emplace_back(is_known_inside ? backward_.graph.values().shape(arg)
                                          : c_.scope.shape(inputs[i]));
    }
    const Node* node = ops::Build(c_.scope.WithName(absl::StrCat(loop_.name(), "_backward")),
                                  stateful ? "While" : "StatelessWhile")
                           .InputList(inputs)
                           .Attr("cond", std::move(cond_ref))
                           .Attr("body", std::move(body_ref))
                           .Attr("output_shapes", std::move(shapes))
                           .Finish();
    MF_RETURN_IF_ERROR(c_.scope.status());
    return node;
  }

  // Returns the gradient with respect to value i after the loop.
  Output FirstGradient(const Node& forward, int i) const {
    if (c_.dy[i].valid()) return c_.dy[i];
    if (!IsHandle(i)) return ops::ZerosLike(c_.scope, forward.output(i));
    const ValueInfo& info = graph_.values().at(loop_.input(i));
    return Zeros(c_.scope, info.handle_dtype, info.handle_shape);
  }

  // Returns the condition of the backward loop: done < count.
  absl::StatusOr<FunctionRef> CountingCondition() const {
    FunctionBody condition;
    const Scope scope(&condition.graph);
    for (const Output& arg : backward_.args) {
      const Scope at = scope.WithName(absl::StrCat("arg_", condition.args.size()));
      if (arg.dtype() == DT_RESOURCE) {
        condition.args.push_back(
            at.Build(arg.node->op())
                .Attr("dtype", arg.node->attr<DataType>("dtype"))
                .Attr("shape", arg.node->attr<Shape>("shape"))
                .Attr("shared_name", arg.node->attr<std::string>("shared_name"))
                .One());
      } else {
        condition.args.push_back(ops::Placeholder(at, arg.dtype()));
      }
    }
    condition.results = {ops::Less(scope, condition.args[0], condition.args[1])};
    MF_RETURN_IF_ERROR(scope.status());
    return DefineFunction(condition, absl::StrCat(name_, "_cond_grad"), graph_);
  }

  struct History {
    Output value;   // in forward_
    Shape element;  // shape of `value`
    Output list;    // argument of backward_
    Output popped;  // `list` after the pop
  };
  // A value read from a variable, which the loop never writes.
  struct Read {
    Output value;  // in forward_
    Shape shape;
    Output arg;  // argument of backward_
  };

  const GradContext& c_;
  Graph& graph_;
  const Node& loop_;
  const std::string name_;
  FunctionBody forward_, backward_;
  bool random_inside_ = false;
  NodeId first_gradient_ = 0;  // in backward_; earlier nodes are the body's
  // Gradients in backward_, by value; invalid if the value has no gradient.
  Outputs d_args_, d_results_;
  std::vector<History> histories_;
  std::vector<Read> reads_;
  std::vector<std::pair<Output, int>> same_;  // argument of backward_, index of the value
};

}  // namespace

absl::StatusOr<std::vector<Output>> LoopGradient(const GradContext& c) {
  return LoopDifferentiator(c).Run();
}

}  // namespace mirrorflow
