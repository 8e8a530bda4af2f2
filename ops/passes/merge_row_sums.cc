// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/merge_row_sums.h"

#include <algorithm>
#include <string>
#include <vector>

#include "framework/core/status.h"
#include "ops/add_n.h"
#include "ops/bias_add.h"
#include "ops/concat.h"
#include "ops/matmul.h"
#include "ops/reshape.h"

namespace mirrorflow {
namespace {

// Two are added as fast as they are merged.
constexpr size_t kFewest = 3;

// Whether the node sums over the rows of its operands, which are matrices, and
// is used only once.
bool SumsRows(const Node& node) {
  if (!node.control_inputs().empty() || node.uses().size() != 1) return false;
  if (node.op().name == ops::kMatMul) {
    return node.attr<bool>("transpose_a") && !node.attr<bool>("transpose_b");
  }
  return node.op().name == ops::kBiasAddGrad && node.attr<std::string>("data_format") == "NHWC";
}

bool AreAlike(const Compilation& c, const Node& a, const Node& b) {
  return a.op().name == b.op().name &&
         std::equal(a.inputs().begin(), a.inputs().end(), b.inputs().begin(), b.inputs().end(),
                    [&](const Output& x, const Output& y) {
                      return c.values().shape(x) == c.values().shape(y);
                    });
}

// Whether to copy the operands is less than to write the result.
bool Pays(const Compilation& c, const Node& node) {
  int64_t copied = 0;
  for (const Output& operand : node.inputs()) {
    if (c.values().shape(operand).rank() != 2) return false;
    copied += c.values().shape(operand).num_elements();
  }
  return copied <= c.values().shape(node.output(0)).num_elements();
}

// Operand `i` of all, one behind the other. A row's copies lie together, so
// that however the rows lie on the replicas, those of the result do so too.
Output RowsOfAll(const Scope& scope, const std::vector<Output>& sums, int i) {
  std::vector<Output> operands;
  for (const Output& sum : sums) operands.push_back(sum.node->input(i));
  const Output packed = ops::Pack(scope, operands, {.axis = 1});
  return scope.ok() ? ops::Reshape(scope, packed, Shape({kUnknownDim, scope.shape(packed).dim(2)}))
                    : Output();
}

absl::StatusOr<bool> Merge(Compilation& c, Node* add) {
  const absl::Span<const Output> inputs = add->inputs();
  const auto first = std::find_if(inputs.begin(), inputs.end(), [&](const Output& x) {
    return SumsRows(*x.node) && Pays(c, *x.node);
  });
  if (first == inputs.end()) return false;
  std::vector<Output> merged, others;
  for (const Output& input : inputs) {
    const bool joins = SumsRows(*input.node) && AreAlike(c, *input.node, *first->node);
    (joins ? merged : others).push_back(input);
  }
  if (merged.size() < kFewest) return false;

  const Scope scope = c.scope().SubScope(add->name());
  const Output a = RowsOfAll(scope, merged, 0);
  const bool is_product = first->node->num_inputs() == 2;
  Output sum = is_product
                   ? ops::MatMul(scope, a, RowsOfAll(scope, merged, 1), {.transpose_a = true})
                   : ops::BiasAddGrad(scope, a);
  others.push_back(sum);
  if (others.size() > 1) sum = ops::AddN(scope, others);
  MF_RETURN_IF_ERROR(c.graph.status());
  c.ReplaceValue(add->output(0), sum);
  c.ReplaceOperation(add, sum.node);
  return true;
}

}  // namespace

absl::StatusOr<bool> MergeRowSums::Run(Compilation& c) {
  bool changed = false;
  for (Node* node : c.graph.Nodes()) {
    if (node->op().role != OpRole::kAddAll || !node->control_inputs().empty()) continue;
    MF_ASSIGN_OR_RETURN(const bool merged, Merge(c, node));
    changed |= merged;
  }
  return changed && c.RemoveDeadNodes();
}

}  // namespace mirrorflow
