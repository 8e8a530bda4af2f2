// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/fuse_epilogues.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/reduced_float.h"
#include "framework/core/status.h"
#include "ops/bias_add.h"
#include "ops/binary.h"
#include "ops/fused_ops.h"
#include "ops/matmul.h"
#include "ops/passes/match.h"
#include "ops/passes/match_activation.h"
#include "ops/unary.h"
#include "ops/unary_grad.h"

namespace mirrorflow {
namespace {

// --- forward ------------------------------------------------------------------------------------

// A node that can become part of the product or convolution before it.
struct Fusion {
  Output value;                // of the product; invalid if there is nothing to fuse
  std::string op;              // replaces both nodes
  std::vector<Output> inputs;  // of the node, other than the value
  Output view = {};            // of the value, if the node's input is only a view of it
};

// Follows views from `x`, an input of `node`, back to the underlying value. A layer whose input has
// more than two dimensions reshapes it for a matrix product, and reshapes the product back before
// it adds the bias. Returns `x` itself if the node's output is sharded differently: the view will
// replace that output but keep its own sharding.
Output BehindViews(const Compilation& c, const Node& node, Output x) {
  if (c.shardings.at(node.output(0)) != c.shardings.at(x)) return x;
  while (IsFreeView(*x.node) && c.IsUsedOnce(x.node->input(0))) x = x.node->input(0);
  return x;
}

// Returns `input` if it is a view of the value, and an invalid output if it is the value itself.
Output ViewOf(const Output& value, const Output& input) {
  return input == value ? Output() : input;
}

// Returns whether the last dimensions, the channels, have the same size. If one value is a view of
// the other, every element then belongs to the same channel in both.
bool HaveSameChannels(const Compilation& c, const Output& a, const Output& b) {
  const Shape &x = c.values().shape(a), &y = c.values().shape(b);
  return x.rank() > 0 && y.rank() > 0 && x.dim(x.rank() - 1) == y.dim(y.rank() - 1);
}

Fusion FindBias(const Compilation& c, const Node& node) {
  if (node.op().name != ops::kBiasAdd || node.attr<std::string>("data_format") != "NHWC") return {};
  const Output value = BehindViews(c, node, node.input(0));
  const Node& product = *value.node;
  const std::string op = ops::Fused(product.op().name);
  if (!c.HasKernel(op) || !c.IsUsedOnce(node.input(0)) ||
      !HaveSameChannels(c, value, node.input(0))) {
    return {};
  }
  if (product.has_attr("data_format") && product.attr<std::string>("data_format") != "NHWC") {
    return {};
  }
  // Each replica adds the bias to its own rows or to the whole value. In a partial sum, the bias
  // would be added once per replica. Kernels write zeros, without a bias, if an operand is empty.
  const bool can_add = (value.dtype() == DT_FLOAT || IsReducedFloat(value.dtype())) &&
                       AsPartial(c.shardings.at(value)) == nullptr &&
                       c.values().shape(product.input(0)).num_elements() > 0 &&
                       c.values().shape(product.input(1)).num_elements() > 0;
  if (!can_add) return {};
  return {value, op, {node.input(1)}, ViewOf(value, node.input(0))};
}

// Returns the op that also does what `change` adds to the epilogue of the node that computes
// `value`; an empty string if there is no such op, kernel or node.
template <typename Change>
std::string Extended(const Compilation& c, const Output& value, const Change& change) {
  std::optional<ops::FusedProduct> fused = ops::AsFused(value.node->op().name);
  if (!fused.has_value() || !fused->epilogue.activation.empty() || !change(&fused->epilogue)) {
    return "";
  }
  const std::string op = ops::Fused(fused->product, fused->epilogue);
  return c.HasKernel(op) ? op : "";
}

Fusion FindAddend(const Compilation& c, const Node& node) {
  if (node.op().name != ops::kAddV2 && node.op().name != ops::kAdd) return {};
  // Without broadcasting, each replica has the same rows of both operands.
  const Shape& shape = c.values().shape(node.output(0));
  for (const Output& input : node.inputs()) {
    if (c.values().shape(input) != shape) return {};
  }
  for (const int i : {0, 1}) {
    const Output value = node.input(i);
    const std::string op = Extended(
        c, value, [](ops::Epilogue* epilogue) { return !std::exchange(epilogue->add, true); });
    if (!op.empty() && c.IsUsedOnce(value)) return {value, op, {node.input(1 - i)}};
  }
  return {};
}

Fusion FindActivation(const Compilation& c, const Node& node) {
  const std::optional<AppliedActivation> applied = MatchActivation(c, node);
  if (!applied.has_value()) return {};
  const Output value = BehindViews(c, node, applied->x);
  const std::string op = Extended(c, value, [&](ops::Epilogue* epilogue) {
    epilogue->activation = applied->activation;
    return true;
  });
  if (op.empty()) return {};
  return {value, op, {}, ViewOf(value, applied->x)};
}

// Replaces `last` and the product before it with one node. Views between them remain.
absl::Status Fuse(Compilation& c, Node* last, const Fusion& fusion) {
  Node* const product = fusion.value.node;
  NodeBuilder build = c.scope()
                          .WithControlInputsOf(*last)
                          .WithControlInputsOf(*product)
                          .WithName(last->name())
                          .Build(FusedOps(), fusion.op);
  for (const Output& input : product->inputs()) build.Input(input);
  for (const Output& input : fusion.inputs) build.Input(input);
  for (const auto& [name, value] : product->attrs()) build.Attr(name, value);
  const Output fused = std::move(build).One();
  MF_RETURN_IF_ERROR(c.graph.status());
  if (!fusion.view.valid()) {
    c.shardings.Set(fused, c.shardings.at(last->output(0)));
    c.ReplaceNode(last, fused);
    return absl::OkStatus();
  }
  c.shardings.Set(fused, c.shardings.at(fusion.value));
  c.ReplaceValue(fusion.value, fused);
  c.ReplaceNode(last, fusion.view);
  c.graph.RemoveNode(last);  // no longer a user of the view, which may be fused further
  return absl::OkStatus();
}

absl::StatusOr<bool> FuseForward(Compilation& c) {
  bool changed = false;
  for (const auto find : {FindBias, FindAddend, FindActivation}) {
    for (Node* node : c.graph.Nodes()) {
      const Fusion fusion = find(c, *node);
      if (!fusion.value.valid()) continue;
      MF_RETURN_IF_ERROR(Fuse(c, node, fusion));
      changed = true;
    }
  }
  return changed && c.RemoveDeadNodes();
}

// --- backward -----------------------------------------------------------------------------------

// The nodes around one layer's Relu, from the product before it to the gradient of the bias.
struct Layer {
  Node* forward;    // the product with bias and Relu
  Node* product;    // computes the gradient of `forward`'s output
  Node* relu_grad;  // ReluGrad of `product`
  Node* bias_grad;  // BiasAddGrad of `relu_grad`
};

// Returns the BiasAddGrad that sums the rows of `value`, or null if no such node exists.
Node* BiasGradOf(const Output& value) {
  for (const Use& use : value.node->uses()) {
    if (use.slot == 0 && use.user->op().name == ops::kBiasAddGrad &&
        use.user->attr<std::string>("data_format") == "NHWC" &&
        use.user->control_inputs().empty()) {
      return use.user;
    }
  }
  return nullptr;
}

// Returns the size of the dimension that a MatMul sums over.
int64_t InnerSize(const Compilation& c, const Node& product) {
  return c.values().shape(product.input(0)).dim(product.attr<bool>("transpose_a") ? 0 : 1);
}

// Returns whether `node`, a ReluGrad, is part of a layer that can be fused. If so, fills `layer`.
bool IsLayer(const Compilation& c, Node* node, Layer* layer) {
  if (!node->control_inputs().empty()) return false;
  *layer = {.forward = node->input(1).node,
            .product = node->input(0).node,
            .relu_grad = node,
            .bias_grad = BiasGradOf(node->output(0))};
  const Node& product = *layer->product;
  const Sharded* const sharded = AsSharded(c.shardings.at(node->input(1)));
  if (sharded != nullptr && sharded->dim != 0) return false;  // a mask's rows cannot be split
  return layer->forward->op().name == ops::Fused(ops::kMatMul, {.activation = ops::kRelu}) &&
         layer->bias_grad != nullptr && product.op().name == ops::kMatMul &&
         product.uses().size() == 1 && product.control_inputs().empty() &&
         // Kernel libraries may not support masks for vector products.
         InnerSize(c, *layer->forward) > 1 && InnerSize(c, product) > 1 &&
         !c.IsFetched(node->input(0)) && c.values().shape(product.input(1)).num_elements() > 0 &&
         AsPartial(c.shardings.at(node->input(0))) == nullptr;
}

// Returns the mask that the layer writes. Makes the layer write one if it does not already.
absl::StatusOr<Output> MaskOf(Compilation& c, Node* forward) {
  if (forward->num_outputs() == 2) return forward->output(1);
  AttrMap attrs = forward->attrs();
  attrs[ops::kNumMasks] = int64_t{1};
  MF_ASSIGN_OR_RETURN(
      Node* const with_mask,
      c.graph.AddNode(c.graph.UniqueName(forward->name()), forward->op(), attrs,
                      {forward->inputs().begin(), forward->inputs().end()},
                      {forward->control_inputs().begin(), forward->control_inputs().end()}));
  MF_RETURN_IF_ERROR(c.values().Infer(*with_mask));
  for (int i = 0; i < 2; ++i) {
    c.shardings.Set(with_mask->output(i), c.shardings.at(forward->output(0)));
  }
  c.ReplaceValue(forward->output(0), with_mask->output(0));
  c.ReplaceOperation(forward, with_mask);
  c.graph.RemoveNode(forward);
  return with_mask->output(1);
}

absl::Status FuseBackward(Compilation& c, const Layer& layer) {
  const Node& product = *layer.product;
  MF_ASSIGN_OR_RETURN(const Output mask, MaskOf(c, layer.forward));
  MF_ASSIGN_OR_RETURN(
      Node* const fused,
      c.graph.AddNode(c.graph.UniqueName(layer.relu_grad->name()),
                      *FusedOps().Find(ops::kMatMulReluGrad), product.attrs(),
                      {product.input(0), product.input(1), mask, mask.node->output(0)}));
  MF_RETURN_IF_ERROR(c.values().Infer(*fused));
  const Node* const replaced[] = {layer.relu_grad, layer.bias_grad};
  for (int i = 0; i < 2; ++i) {
    c.shardings.Set(fused->output(i), c.shardings.at(replaced[i]->output(0)));
    c.ReplaceValue(replaced[i]->output(0), fused->output(i));
  }
  c.ReplaceOperation(layer.relu_grad, fused);
  c.ReplaceOperation(layer.bias_grad, fused);
  return absl::OkStatus();
}

absl::StatusOr<bool> FuseBackward(Compilation& c) {
  if (!c.HasKernel(ops::kMatMulReluGrad)) return false;
  // Collects the ReluGrads first: fusing replaces nodes of the forward layers, but not these.
  std::vector<Node*> relu_grads;
  for (Node* node : c.graph.Nodes()) {
    if (node->op().name == ops::kReluGrad) relu_grads.push_back(node);
  }
  bool changed = false;
  for (Node* node : relu_grads) {
    Layer layer;
    if (!IsLayer(c, node, &layer)) continue;
    MF_RETURN_IF_ERROR(FuseBackward(c, layer));
    changed = true;
  }
  return changed && c.RemoveDeadNodes();
}

}  // namespace

absl::StatusOr<bool> FuseEpilogues::Run(Compilation& c) {
  MF_ASSIGN_OR_RETURN(const bool forward, FuseForward(c));
  MF_ASSIGN_OR_RETURN(const bool backward, FuseBackward(c));
  return forward || backward;
}

}  // namespace mirrorflow
