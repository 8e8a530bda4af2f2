// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/fuse_bias.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/reduced_float.h"
#include "framework/core/status.h"
#include "ops/bias_add.h"
#include "ops/conv2d.h"
#include "ops/fused_ops.h"
#include "ops/matmul.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

// Whether nobody needs the value but its one user.
bool IsForOne(const Compilation& c, const Output& value) {
  return value.node->uses().size() == 1 &&
         std::count(c.fetches.begin(), c.fetches.end(), value) == 0;
}

// Whether `add` adds a bias to what a product or convolution makes for it alone.
bool AddsToProduct(const Compilation& c, const Node& add) {
  if (add.op().name != ops::kBiasAdd || add.attr<std::string>("data_format") != "NHWC") {
    return false;
  }
  const Output value = add.input(0);
  const Node& product = *value.node;
  if (product.op().name != ops::kMatMul &&
      (product.op().name != ops::kConv2D || product.attr<std::string>("data_format") != "NHWC")) {
    return false;
  }
  // Each replica adds the bias to what it has: to rows, or to all of it.
  return (value.dtype() == DT_FLOAT || IsReducedFloat(value.dtype())) && IsForOne(c, value) &&
         c.HasKernel(ops::WithBias(product.op().name)) &&
         AsPartial(c.shardings.at(value)) == nullptr &&
         c.values().shape(product.input(1)).num_elements() > 0;
}

// The op that does what `relu` and the product with a bias before it do; empty if there is none.
std::string OpWithRelu(const Compilation& c, const Node& relu) {
  if (relu.op().name != ops::kRelu || !IsForOne(c, relu.input(0))) return "";
  for (const char* product : {ops::kMatMul, ops::kConv2D}) {
    if (relu.input(0).node->op().name != ops::WithBias(product)) continue;
    return c.HasKernel(ops::WithBiasAndRelu(product)) ? ops::WithBiasAndRelu(product) : "";
  }
  return "";
}

// Makes `last` and what makes its first input one node of `op`, with the other inputs of both.
absl::Status Fuse(Compilation& c, Node* last, const std::string& op) {
  Node* const product = last->input(0).node;
  std::vector<Operation> before;
  for (const Node* node : {last, product}) {
    for (Node* control : node->control_inputs()) before.push_back({control});
  }
  NodeBuilder build =
      c.scope().WithControlDependencies(before).WithName(last->name()).Build(FusedOps(), op);
  for (const Output& input : product->inputs()) std::move(build).Input(input);
  for (const Output& input : last->inputs().subspan(1)) std::move(build).Input(input);
  for (const auto& [name, value] : product->attrs()) std::move(build).Attr(name, value);
  const Output fused = std::move(build).One();
  MF_RETURN_IF_ERROR(c.graph.status());
  c.shardings.Set(fused, c.shardings.at(last->output(0)));
  c.ReplaceNode(last, fused);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> FuseBias::Run(Compilation& c) {
  bool changed = false;
  for (Node* node : c.graph.Nodes()) {
    if (!AddsToProduct(c, *node)) continue;
    MF_RETURN_IF_ERROR(Fuse(c, node, ops::WithBias(node->input(0).node->op().name)));
    changed = true;
  }
  for (Node* node : c.graph.Nodes()) {
    const std::string op = OpWithRelu(c, *node);
    if (op.empty()) continue;
    MF_RETURN_IF_ERROR(Fuse(c, node, op));
    changed = true;
  }
  return changed && c.RemoveDeadNodes();
}

}  // namespace mirrorflow
