// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/passes/infer_and_fold.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/runtime/evaluate_node.h"

namespace mirrorflow {
namespace {

// A larger constant costs more to keep than to compute; shape arithmetic is never this large.
constexpr int64_t kMaxFoldedBytes = 4096;
// Nor is it much work: a small product of large constants would be.
constexpr int64_t kMaxFoldedFlops = int64_t{1} << 24;

// Of what KnownValue looks at, a node counted each time.
constexpr int kMaxKnownNodes = 256;

std::string Where(const Node& node) { return absl::StrCat(node.op().name, "(", node.name(), ")"); }

bool IsConstant(const Compilation& c, const Output& output) {
  return c.values().at(output).constant.has_value();
}

// The value of the node's outputs, if its kernel can make it now.
void TryEvaluate(Compilation& c, const Node& node) {
  const OpDef& op = node.op();
  if (!Computes(op) || op.has(kStateful) || node.num_outputs() == 0) return;
  if (node.output_dtype(0) == DT_VARIANT) return;  // a list, of which no more can be known
  if (!c.kernels->Has(op.name, "CPU")) return;
  std::vector<Tensor> inputs;
  for (const Output& in : node.inputs()) {
    Tensor value = c.values().at(in).constant;
    // Ones in the shape of a value need its shape only. The gradient of the loss starts with them:
    // it must not wait for the loss.
    if (!value.has_value() && op.role == OpRole::kOnesLike &&
        c.values().shape(in).IsFullyDefined() && c.ValueBytes(in) <= kMaxFoldedBytes) {
      absl::StatusOr<Tensor> zeros = Tensor::Allocate(in.dtype(), c.values().shape(in));
      if (zeros.ok()) value = *std::move(zeros);
    }
    if (!value.has_value()) return;
    inputs.push_back(std::move(value));
  }
  std::vector<Shape> shapes;
  int64_t bytes = 0;
  for (int i = 0; i < node.num_outputs(); ++i) {
    const Shape& shape = c.values().shape(node.output(i));
    if (!shape.IsFullyDefined()) return;
    shapes.push_back(shape);
    bytes += shape.num_elements() * static_cast<int64_t>(DataTypeSize(node.output_dtype(i)));
  }
  if (bytes > kMaxFoldedBytes) return;
  absl::StatusOr<std::vector<Tensor>> outputs =
      EvaluateNode(node, inputs, shapes, *c.kernels, {.max_flops = kMaxFoldedFlops});
  // What fails on these values fails in the step too, if it is ever run.
  if (!outputs.ok()) return;
  for (int i = 0; i < node.num_outputs(); ++i) {
    ValueInfo info = c.values().at(node.output(i));
    info.constant = (*outputs)[i];
    c.values().Set(node.output(i), std::move(info));
  }
}

// Whether constants alone make the node's outputs. Rows of earlier times are not asked: what made
// them may be fed now.
bool FollowsFromConstants(Compilation& c, const Node& node, int& budget) {
  const bool is_constant = node.op().role == OpRole::kConstant;
  if (--budget < 0) return false;
  if (!is_constant && (!Computes(node.op()) || node.op().has(kStateful))) return false;
  for (const Output& in : node.inputs()) {
    if (!FollowsFromConstants(c, *in.node, budget)) return false;
  }
  if (!c.values().Infer(node).ok()) return false;
  TryEvaluate(c, node);
  return true;
}

// Whether result `i` of a loop's body is its argument `i`, whatever happens in it.
bool IsInvariant(const Compilation& body, size_t i) {
  Output value = body.fetches[i];
  while (value.node->op().has(kView) && value.node->num_inputs() > 0) value = value.node->input(0);
  return value == body.feeds[i];
}

}  // namespace

// Puts constants in the place of outputs whose value is known.
absl::StatusOr<bool> InferAndFold::ReplaceByConstants(Compilation& c, Node* node) const {
  if (trials_ > 0) return false;
  if (!Computes(node->op()) || node->op().has(kStateful)) return false;
  const OpDef* constant_op = c.ops->FindRole(OpRole::kConstant);
  if (constant_op == nullptr) return false;
  bool changed = false, is_known = true;
  for (int i = 0; i < node->num_outputs(); ++i) {
    const Output output = node->output(i);
    if (output.dtype() == DT_VARIANT || !IsConstant(c, output)) {
      is_known = false;
      continue;
    }
    const bool used = std::any_of(node->uses().begin(), node->uses().end(), [&](const Use& use) {
      return use.slot != Use::kControl && use.user->input(use.slot) == output;
    });
    const bool fetched = std::find(c.fetches.begin(), c.fetches.end(), output) != c.fetches.end();
    if (!used && !fetched) continue;
    const Tensor value = c.values().at(output).constant;
    Node* constant = c.scope()
                         .WithName(absl::StrCat(node->name(), "/folded"))
                         .Build(*constant_op)
                         .Attr("dtype", value.dtype())
                         .Attr("value", value)
                         .Finish();
    MF_RETURN_IF_ERROR(c.graph.status());
    // What had to happen before the node still has to happen before its users.
    for (Node* control : node->control_inputs()) c.graph.AddControlEdge(control, constant);
    c.ReplaceValue(output, constant->output(0));
    changed = true;
  }
  if (!is_known) return changed;
  // Nor has anybody to wait for a node that computes nothing any more, but for what it waited for.
  const std::vector<Use> uses(node->uses().begin(), node->uses().end());
  for (const Use& use : uses) {
    if (use.slot != Use::kControl) continue;
    for (Node* control : node->control_inputs()) c.graph.AddControlEdge(control, use.user);
    for (const Output& in : node->inputs()) {
      const bool has_past = in.node->num_inputs() > 0 || !in.node->control_inputs().empty();
      if (has_past) c.graph.AddControlEdge(in.node, use.user);
    }
    changed = true;
  }
  c.graph.ReplaceControlUses(node, nullptr);
  return changed;
}

absl::Status InferAndFold::CheckStatic(const Compilation& c, const Node& node) const {
  if (trials_ > 0) return absl::OkStatus();
  for (int i = 0; i < node.num_inputs(); ++i) {
    if (node.is_static_input(i) && !IsConstant(c, node.input(i))) {
      return absl::UnimplementedError(absl::StrCat(
          Where(node), ": input ", i, " (", node.input(i).ToString(),
          ") must be known before the step runs; shapes that depend on data are not supported"));
    }
  }
  for (int i = 0; i < node.num_outputs(); ++i) {
    const Shape& shape = c.values().shape(node.output(i));
    if (!shape.IsFullyDefined()) {
      return absl::UnimplementedError(
          absl::StrCat(Where(node), ": the shape of output ", i, " depends on data, got ",
                       shape.ToString(), "; only shapes known before the step runs are supported"));
    }
  }
  return absl::OkStatus();
}

absl::Status InferAndFold::SetFeedShapes(Compilation& c) const {
  for (size_t i = 0; i < c.feeds.size(); ++i) {
    const Output& feed = c.feeds[i];
    if (feed.dtype() == DT_VARIANT) {
      if (c.is_body) continue;  // InferBody has said what it is
      return absl::UnimplementedError(
          absl::StrCat("feed ", feed.ToString(), " is a list; expected a tensor"));
    }
    MF_RETURN_IF_ERROR(c.values().Infer(*feed.node));
    const Shape declared = c.values().shape(feed);
    const bool defined = trials_ > 0 || c.feed_shapes[i].IsFullyDefined();
    if (!defined || !declared.IsCompatibleWith(c.feed_shapes[i])) {
      return absl::InvalidArgumentError(absl::StrCat("feed ", feed.ToString(), ": expected shape ",
                                                     declared.ToString(), ", got ",
                                                     c.feed_shapes[i].ToString()));
    }
    ValueInfo info{.shape = c.feed_shapes[i]};
    if (c.is_body) info.constant = c.argument_values[i];
    c.values().Set(feed, std::move(info));
  }
  return absl::OkStatus();
}

absl::Status InferAndFold::InferBody(Compilation& c, const Node& node, Compilation& body,
                                     const std::vector<bool>& stays,
                                     const std::vector<ListInfo>& lists) {
  constexpr int64_t kNodesAsACall = 1 << 8;
  if (trials_ > 0) trial_nodes_left_ -= body.graph.num_nodes() + kNodesAsACall;
  if (trial_nodes_left_ < 0) {
    return absl::ResourceExhaustedError(absl::StrCat(
        Where(node), ": what the lists of loops in loops are takes too long to find out"));
  }
  const int first = FirstArgument(node.op());
  body.feed_shapes.clear();
  body.argument_values.clear();
  for (size_t i = 0; i < body.feeds.size(); ++i) {
    const Output& in = node.input(first + static_cast<int>(i));
    body.feed_shapes.push_back(c.values().shape(in));
    const bool is_list = in.dtype() == DT_VARIANT;
    body.argument_values.push_back(stays[i] && !is_list ? c.values().at(in).constant : Tensor());
    if (is_list) body.values().Set(body.feeds[i], lists[i].ToValueInfo());
  }
  return Run(body).status();
}

absl::StatusOr<LoopLists> InferAndFold::TryLists(Compilation& c, const Node& node,
                                                 const std::vector<bool>& stays,
                                                 const std::vector<ListInfo>& first) {
  const Compilation::Bodies& bodies = c.bodies.at(node.id());
  LoopLists lists(first);
  ++trials_;
  for (bool again = true; again;) {
    MF_RETURN_IF_ERROR(InferBody(c, node, *bodies[1], stays, lists.arguments()));
    MF_RETURN_IF_ERROR(InferBody(c, node, *bodies[0], stays, lists.behind()));
    std::vector<ListInfo> results;
    for (const Output& result : bodies.back()->fetches) {
      results.push_back(result.dtype() == DT_VARIANT
                            ? ListInfo::From(bodies.back()->values().at(result))
                            : ListInfo());
    }
    const std::optional<int64_t> bound =
        loop_bound_ != nullptr ? loop_bound_(c, node) : std::nullopt;
    absl::StatusOr<bool> refined = lists.Refine(results, bound);
    if (!refined.ok()) return Annotate(refined.status(), Where(node));
    again = *refined;
  }
  --trials_;
  return lists;
}

Tensor KnownValue(Compilation& c, const Output& value) {
  int budget = kMaxKnownNodes;
  if (!FollowsFromConstants(c, *value.node, budget)) return Tensor();
  return c.values().at(value).constant;
}

// Infers what the functions of a branch or loop make of the node's inputs, which are known, and
// gives the node's outputs their shapes.
absl::Status InferAndFold::InferBodies(Compilation& c, const Node& node) {
  const Compilation::Bodies& bodies = c.bodies.at(node.id());
  const bool loops = node.op().role == OpRole::kLoop;
  std::vector<bool> stays;               // by argument: it is the node's input in every iteration
  std::vector<ListInfo> lists, results;  // results: behind the node; a loop's condition sees them
  bool has_lists = false;
  for (size_t i = 0; i < bodies.back()->feeds.size(); ++i) {
    stays.push_back(!loops || IsInvariant(*bodies.back(), i));
    const Output& in = node.input(FirstArgument(node.op()) + static_cast<int>(i));
    const bool is_list = in.dtype() == DT_VARIANT;
    has_lists |= is_list;
    lists.push_back(is_list ? ListInfo::From(c.values().at(in)) : ListInfo());
  }
  if (loops && has_lists) {
    MF_ASSIGN_OR_RETURN(const LoopLists found, TryLists(c, node, stays, lists));
    lists = found.arguments();
    results = found.behind();
  } else if (loops) {
    results = lists;
  }
  std::vector<Shape> shapes;
  // A loop's body first: its results are the condition's arguments too.
  for (auto it = bodies.rbegin(); it != bodies.rend(); ++it) {
    Compilation& body = **it;
    const bool is_condition = loops && &body == bodies.front().get();
    MF_RETURN_IF_ERROR(InferBody(c, node, body, stays, is_condition ? results : lists));
    for (size_t i = 0; i < body.fetches.size() && !is_condition; ++i) {
      const Output& result = body.fetches[i];
      if (result.dtype() == DT_VARIANT && !loops) {
        ListInfo list = ListInfo::From(body.values().at(result));
        if (results.size() <= i) results.resize(i + 1);
        if (it != bodies.rbegin()) {
          absl::StatusOr<ListInfo> either = EitherList(results[i], list);
          if (!either.ok()) return Annotate(either.status(), Where(node));
          list = *std::move(either);
        }
        results[i] = std::move(list);
      }
      const Shape& shape = body.values().shape(result);
      if (shapes.size() <= i) shapes.push_back(loops ? body.feed_shapes[i] : shape);
      if (shapes[i] == shape || trials_ > 0) continue;
      return absl::UnimplementedError(absl::StrCat(
          Where(node), ": the shape of output ", i, " depends on ",
          loops ? "how often the loop runs" : "which branch runs", "; expected one shape, got ",
          shapes[i].ToString(), " and ", shape.ToString()));
    }
  }
  for (int i = 0; i < node.num_outputs(); ++i) {
    const bool is_list = node.output_dtype(i) == DT_VARIANT;
    c.values().Set(node.output(i),
                   is_list ? results[i].ToValueInfo() : ValueInfo{.shape = shapes[i]});
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> InferAndFold::Run(Compilation& c) {
  MF_RETURN_IF_ERROR(SetFeedShapes(c));
  MF_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(c.graph));
  bool changed = false;
  for (Node* node : order) {
    if (node->op().role == OpRole::kPlaceholder) {
      if (std::find(c.feeds.begin(), c.feeds.end(), node->output(0)) == c.feeds.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat(Where(*node), ": the step needs this placeholder, but it is not fed"));
      }
      continue;
    }
    MF_RETURN_IF_ERROR(c.values().Infer(*node));
    if (IsControlFlow(node->op())) MF_RETURN_IF_ERROR(InferBodies(c, *node));
    TryEvaluate(c, *node);
    MF_RETURN_IF_ERROR(CheckStatic(c, *node));
    MF_ASSIGN_OR_RETURN(const bool replaced, ReplaceByConstants(c, node));
    changed |= replaced;
  }
  if (trials_ > 0) return false;
  return c.RemoveDeadNodes() || changed;
}

}  // namespace mirrorflow
