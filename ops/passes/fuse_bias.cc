// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/fuse_bias.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/status.h"
#include "ops/bias_add.h"
#include "ops/conv2d.h"
#include "ops/fused_ops.h"
#include "ops/matmul.h"

namespace mirrorflow {
namespace {

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
  return value.dtype() == DT_FLOAT && product.uses().size() == 1 &&
         c.HasKernel(ops::WithBias(product.op().name)) &&
         AsPartial(c.shardings.at(value)) == nullptr &&
         c.values().shape(product.input(1)).num_elements() > 0 &&
         std::count(c.fetches.begin(), c.fetches.end(), value) == 0;
}

absl::Status Fuse(Compilation& c, Node* add) {
  Node* const product = add->input(0).node;
  std::vector<Operation> before;
  for (const Node* node : {add, product}) {
    for (Node* control : node->control_inputs()) before.push_back({control});
  }
  NodeBuilder build = c.scope()
                          .WithControlDependencies(before)
                          .WithName(add->name())
                          .Build(FusedOps(), ops::WithBias(product->op().name));
  for (const Output& input : product->inputs()) std::move(build).Input(input);
  std::move(build).Input(add->input(1));
  for (const auto& [name, value] : product->attrs()) std::move(build).Attr(name, value);
  const Output fused = std::move(build).One();
  MF_RETURN_IF_ERROR(c.graph.status());
  c.shardings.Set(fused, c.shardings.at(add->output(0)));
  c.ReplaceNode(add, fused);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> FuseBias::Run(Compilation& c) {
  bool changed = false;
  for (Node* node : c.graph.Nodes()) {
    if (!AddsToProduct(c, *node)) continue;
    MF_RETURN_IF_ERROR(Fuse(c, node));
    changed = true;
  }
  return changed && c.RemoveDeadNodes();
}

}  // namespace mirrorflow
