// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/passes/infer_and_fold.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/runtime/evaluate_node.h"

namespace mirrorflow {
namespace {

// A larger constant costs more to store than to compute; shape arithmetic is never this large.
constexpr int64_t kMaxFoldedBytes = 4096;
// Also limits the work: shape arithmetic is cheap, but a small product of large constants is not.
constexpr int64_t kMaxFoldedFlops = int64_t{1} << 24;

// The maximum number of nodes that KnownValue visits, counting repeated visits.
constexpr int kMaxKnownNodes = 256;

bool IsConstant(const Compilation& c, const Output& output) {
  return c.values().at(output).constant.has_value();
}

// Sets the values of the node's outputs if its kernel can already compute them.
void TryEvaluate(Compilation& c, const Node& node) {
  const OpDef& op = node.op();
  if (!Computes(op) || op.has(kStateful) || node.num_outputs() == 0) return;
  if (node.output_dtype(0) == DT_VARIANT) return;  // the value of a list is never known
  if (!op.has(kView) && !c.kernels->Has(op.name, "CPU")) return;
  std::vector<Tensor> inputs;
  for (const Output& in : node.inputs()) {
    Tensor value = c.values().at(in).constant;
    // OnesLike needs only the shape of its input. The gradient of the loss starts with OnesLike and
    // must not wait for the loss.
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
  // A node that fails on these values is not folded; it also fails in the step, if it ever runs.
  if (!outputs.ok()) return;
  for (int i = 0; i < node.num_outputs(); ++i) {
    ValueInfo info = c.values().at(node.output(i));
    info.constant = (*outputs)[i];
    c.values().Set(node.output(i), std::move(info));
  }
}

// Drops the known values of the node's outputs, but keeps their shapes.
void ForgetConstants(Compilation& c, const Node& node) {
  for (int i = 0; i < node.num_outputs(); ++i) {
    ValueInfo info = c.values().at(node.output(i));
    info.constant = Tensor();
    info.as_shape.reset();
    c.values().Set(node.output(i), std::move(info));
  }
}

// Returns true if the node's outputs are computed from constants only. Ignores values already in
// the shape table, because the nodes that produced them may now be fed.
bool FollowsFromConstants(Compilation& c, const Node& node, int& budget) {
  const bool is_constant = node.op().role == OpRole::kConstant;
  if (--budget < 0 || node.has_attr(kRowsAttr)) return false;
  if (!is_constant && (!Computes(node.op()) || node.op().has(kStateful))) return false;
  for (const Output& in : node.inputs()) {
    if (!FollowsFromConstants(c, *in.node, budget)) return false;
  }
  if (!c.values().Infer(node).ok()) return false;
  TryEvaluate(c, node);
  return true;
}

// Returns the information about a list, or an unknown list if the value is not a list.
ListInfo ListOf(const Compilation& c, const Output& value) {
  return value.dtype() == DT_VARIANT ? ListInfo::From(c.values().at(value)) : ListInfo();
}

// Returns the lists that a branch or loop passes to its functions, one entry per argument.
std::vector<ListInfo> ListArguments(const Compilation& c, const Node& node) {
  std::vector<ListInfo> lists;
  for (const Output& in : node.inputs().subspan(FirstArgument(node.op()))) {
    lists.push_back(ListOf(c, in));
  }
  return lists;
}

void SetOutputs(Compilation& c, const Node& node, const std::vector<Shape>& shapes,
                const std::vector<ListInfo>& lists) {
  for (int i = 0; i < node.num_outputs(); ++i) {
    const bool is_list = node.output_dtype(i) == DT_VARIANT;
    c.values().Set(node.output(i),
                   is_list ? lists[i].ToValueInfo() : ValueInfo{.shape = shapes[i]});
  }
}

}  // namespace

// Replaces the node's outputs that have known values with constants.
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
    if (!used && !c.IsFetched(output)) continue;
    const Tensor value = c.values().at(output).constant;
    Node* constant = c.scope()
                         .WithName(absl::StrCat(node->name(), "/folded"))
                         .WithControlInputsOf(*node)
                         .Build(*constant_op)
                         .Attr("dtype", value.dtype())
                         .Attr("value", value)
                         .Finish();
    MF_RETURN_IF_ERROR(c.graph.status());
    c.ReplaceValue(output, constant->output(0));
    changed = true;
  }
  if (!is_known) return changed;
  // The node no longer computes anything, so its users wait for its control inputs instead.
  const std::vector<Use> uses(node->uses().begin(), node->uses().end());
  for (const Use& use : uses) {
    if (use.slot != Use::kControl) continue;
    for (const Operation& earlier : Predecessors(*node)) {
      c.graph.AddControlEdge(earlier.node, use.user);
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
          OpAndName(node), ": input ", i, " (", node.input(i).ToString(),
          ") must be known before the step runs; shapes that depend on data are not supported"));
    }
  }
  for (int i = 0; i < node.num_outputs(); ++i) {
    const Shape& shape = c.values().shape(node.output(i));
    if (!shape.IsFullyDefined()) {
      return absl::UnimplementedError(absl::StrCat(
          OpAndName(node), ": the shape of output ", i,
          " depends on data; expected a shape that is known before the step runs, got ",
          shape.ToString()));
    }
  }
  return absl::OkStatus();
}

absl::Status InferAndFold::SetFeedShapes(Compilation& c) const {
  for (size_t i = 0; i < c.feeds.size(); ++i) {
    const Output& feed = c.feeds[i];
    if (feed.dtype() == DT_VARIANT) {
      if (c.is_body) continue;  // InferBody has already set its information
      return absl::UnimplementedError(
          absl::StrCat("feed ", feed.ToString(), " is a list; expected a tensor"));
    }
    MF_RETURN_IF_ERROR(c.values().Infer(*feed.node));
    const Shape declared = c.values().shape(feed);
    const bool defined = trials_ > 0 || c.feed_shapes[i].IsFullyDefined();
    const bool fits = stand_in_ != nullptr || declared.IsCompatibleWith(c.feed_shapes[i]);
    if (!defined || !fits) {
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
        OpAndName(node), ": inferring the types of the lists in nested loops takes too long"));
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
                                                 const std::vector<bool>& stays) {
  const Compilation::Bodies& bodies = c.bodies.at(node.id());
  LoopLists lists(ListArguments(c, node));
  const auto is_list = [](const Output& in) { return in.dtype() == DT_VARIANT; };
  if (std::none_of(node.inputs().begin(), node.inputs().end(), is_list)) return lists;
  ++trials_;
  for (bool again = true; again;) {
    MF_RETURN_IF_ERROR(InferBody(c, node, *bodies[1], stays, lists.arguments()));
    MF_RETURN_IF_ERROR(InferBody(c, node, *bodies[0], stays, lists.after_loop()));
    std::vector<ListInfo> results;
    for (const Output& result : bodies[1]->fetches) results.push_back(ListOf(*bodies[1], result));
    const std::optional<int64_t> bound =
        loop_bound_ != nullptr ? loop_bound_(c, node) : std::nullopt;
    MF_ASSIGN_OR_RETURN(again, Annotate(lists.Refine(results, bound), OpAndName(node)));
  }
  --trials_;
  return lists;
}

Tensor KnownValue(Compilation& c, const Output& value) {
  int budget = kMaxKnownNodes;
  if (!FollowsFromConstants(c, *value.node, budget)) return Tensor();
  return c.values().at(value).constant;
}

absl::Status InferAndFold::CheckSame(const Node& node, int output, absl::string_view depends_on,
                                     const Shape& a, const Shape& b) const {
  if (a == b || trials_ > 0) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat(OpAndName(node), ": the shape of output ", output, " depends on ", depends_on,
                   "; expected one shape, got ", a.ToString(), " and ", b.ToString()));
}

absl::Status InferAndFold::InferBranches(Compilation& c, const Node& node) {
  Compilation &then_branch = *c.bodies.at(node.id())[0], &else_branch = *c.bodies.at(node.id())[1];
  const std::vector<ListInfo> lists = ListArguments(c, node);
  const std::vector<bool> stays(lists.size(), true);
  MF_RETURN_IF_ERROR(InferBody(c, node, else_branch, stays, lists));
  MF_RETURN_IF_ERROR(InferBody(c, node, then_branch, stays, lists));
  std::vector<Shape> shapes;
  std::vector<ListInfo> results;
  for (int i = 0; i < node.num_outputs(); ++i) {
    const Output &a = else_branch.fetches[i], &b = then_branch.fetches[i];
    shapes.push_back(else_branch.values().shape(a));
    MF_RETURN_IF_ERROR(
        CheckSame(node, i, "which branch runs", shapes[i], then_branch.values().shape(b)));
    MF_ASSIGN_OR_RETURN(
        results.emplace_back(),
        Annotate(EitherList(ListOf(else_branch, a), ListOf(then_branch, b)), OpAndName(node)));
  }
  SetOutputs(c, node, shapes, results);
  return absl::OkStatus();
}

absl::Status InferAndFold::InferLoop(Compilation& c, const Node& node) {
  Compilation &condition = *c.bodies.at(node.id())[0], &body = *c.bodies.at(node.id())[1];
  std::vector<bool> stays;  // by argument: whether every iteration sees the node's input
  for (size_t i = 0; i < body.feeds.size(); ++i) {
    stays.push_back(StripViews(body.fetches[i]) == body.feeds[i]);
  }
  MF_ASSIGN_OR_RETURN(const LoopLists lists, TryLists(c, node, stays));
  MF_RETURN_IF_ERROR(InferBody(c, node, body, stays, lists.arguments()));
  for (int i = 0; i < node.num_outputs(); ++i) {
    MF_RETURN_IF_ERROR(CheckSame(node, i, "how often the loop runs", body.feed_shapes[i],
                                 body.values().shape(body.fetches[i])));
  }
  MF_RETURN_IF_ERROR(InferBody(c, node, condition, stays, lists.after_loop()));
  SetOutputs(c, node, body.feed_shapes, lists.after_loop());
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
            absl::StrCat(OpAndName(*node), ": the step needs this placeholder, but it is not fed"));
      }
      continue;
    }
    MF_RETURN_IF_ERROR(InferNode(c, *node));
    if (node->op().role == OpRole::kBranch) MF_RETURN_IF_ERROR(InferBranches(c, *node));
    if (node->op().role == OpRole::kLoop) MF_RETURN_IF_ERROR(InferLoop(c, *node));
    if (node->has_attr(kRowsAttr)) {
      ForgetConstants(c, *node);
    } else {
      TryEvaluate(c, *node);
    }
    MF_RETURN_IF_ERROR(CheckStatic(c, *node));
    MF_ASSIGN_OR_RETURN(const bool replaced, ReplaceByConstants(c, node));
    changed |= replaced;
  }
  if (trials_ > 0) return false;
  return c.RemoveDeadNodes() || changed;
}

absl::Status InferAndFold::InferNode(Compilation& c, const Node& node) {
  const absl::Status inferred = c.values().Infer(node);
  if (inferred.ok() || stand_in_ == nullptr) return inferred;
  (*stand_in_)(c, node);
  return absl::OkStatus();
}

absl::Status InferAndFold::InferOnly(Compilation& c, std::optional<StandIn> stand_in) {
  stand_in_ = stand_in.has_value() ? &*stand_in : nullptr;
  ++trials_;
  const absl::Status status = Run(c).status();
  --trials_;
  stand_in_ = nullptr;
  return status;
}

}  // namespace mirrorflow
