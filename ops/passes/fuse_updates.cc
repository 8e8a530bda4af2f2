// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/fuse_updates.h"

#include <algorithm>
#include <vector>

#include "framework/core/status.h"
#include "ops/fused_ops.h"
#include "ops/matmul.h"

namespace mirrorflow {
namespace {

// An operand of at most so many elements is in a core's cache all the time.
constexpr int64_t kMaxOperandElements = int64_t{1} << 17;
// A piece of a gradient is made of all rows at once, and of whole vectors.
constexpr int64_t kMaxRows = 1024;
constexpr int64_t kMinColumns = 32;
// Smaller gradients do not leave the cache anyway.
constexpr int64_t kMinGradientElements = int64_t{1} << 13;
// Ranks read one another's rows instead of one another's gradients: so much less of them.
constexpr int64_t kMinLess = 2;

// Whether the value lies where a variable does: the update would write over it.
bool IsVariable(const Output& value) { return BehindViews(value).node->op().role == OpRole::kRead; }

// How the rows of both operands are split; null if they are not, or not alike.
const Sharded* RowsOfBoth(const Compilation& c, const Node& product) {
  const Sharded* a = AsSharded(c.shardings.at(product.input(0)));
  const Sharded* b = AsSharded(c.shardings.at(product.input(1)));
  return a != nullptr && b != nullptr && *a == *b && a->dim == 0 ? a : nullptr;
}

int GradientIndex(const Node& update) { return update.input_index(update.op().update_gradient); }

// Whether `update` is one by a product that nobody else needs.
bool IsByProduct(const Compilation& c, const Node& update) {
  if (update.op().role != OpRole::kWrite || update.op().update_gradient.empty() ||
      !c.HasKernel(ops::OfProduct(update.op().name))) {
    return false;
  }
  const Output gradient = update.input(GradientIndex(update));
  const Node& product = *gradient.node;
  if (product.op().name != ops::kMatMul || gradient.dtype() != DT_FLOAT ||
      !product.attr<bool>("transpose_a") || product.attr<bool>("transpose_b") ||
      product.uses().size() != 1 || IsVariable(product.input(0)) || IsVariable(product.input(1)) ||
      std::count(c.fetches.begin(), c.fetches.end(), gradient) > 0) {
    return false;
  }
  const Shape& a = c.values().shape(product.input(0));
  const Shape& b = c.values().shape(product.input(1));
  const int64_t elements = c.values().shape(gradient).num_elements();
  if (a.dim(0) > kMaxRows || b.dim(1) < kMinColumns || elements < kMinGradientElements) {
    return false;
  }
  if (!IsCollective(update)) return b.num_elements() <= kMaxOperandElements;
  return c.world.one_domain && RowsOfBoth(c, product) != nullptr &&
         update.attr<std::string>(kReductionAttr) == "sum" &&
         kMinLess * (a.num_elements() + b.num_elements()) <= elements;
}

absl::Status Fuse(Compilation& c, Node* update) {
  const int gradient = GradientIndex(*update);
  Node* const product = update->input(gradient).node;
  MF_ASSIGN_OR_RETURN(const OpDef* op, FusedOps().Lookup(ops::OfProduct(update->op().name)));
  std::vector<Output> inputs(update->inputs().begin(), update->inputs().end());
  inputs[gradient] = product->input(0);
  inputs.push_back(product->input(1));
  std::vector<Node*> before(update->control_inputs().begin(), update->control_inputs().end());
  before.insert(before.end(), product->control_inputs().begin(), product->control_inputs().end());
  MF_ASSIGN_OR_RETURN(Node* const fused, c.graph.AddNode(c.graph.UniqueName(update->name()), *op,
                                                         update->attrs(), inputs, before));
  if (IsCollective(*update)) {
    const Sharded rows = *RowsOfBoth(c, *product);
    c.graph.SetAttr(fused, kAxisAttr, static_cast<int64_t>(rows.axis));
    c.graph.SetAttr(fused, kFactorAttr, rows.factor);
  }
  c.ReplaceOperation(update, fused);
  c.graph.RemoveNode(update);
  c.graph.RemoveNode(product);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> FuseUpdates::Run(Compilation& c) {
  std::vector<Node*> updates;
  for (Node* node : c.graph.Nodes()) {
    if (IsByProduct(c, *node)) updates.push_back(node);
  }
  for (Node* update : updates) MF_RETURN_IF_ERROR(Fuse(c, update));
  return !updates.empty();
}

}  // namespace mirrorflow
