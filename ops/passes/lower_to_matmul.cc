// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/lower_to_matmul.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "ops/add_n.h"
#include "ops/bias_add.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/einsum.h"
#include "ops/matmul.h"
#include "ops/reduction.h"
#include "ops/reshape.h"
#include "ops/transpose.h"

namespace mirrorflow {
namespace {

// --- Einsum -------------------------------------------------------------------------------------

bool Has(const std::string& labels, char label) { return absl::StrContains(labels, label); }

bool IsDiagonal(std::string term) {
  std::sort(term.begin(), term.end());
  return std::adjacent_find(term.begin(), term.end()) != term.end();
}

class Expansion {
 public:
  Expansion(Compilation& c, const Node& node)
      : c_(c), node_(node), scope_(c.scope().SubScope(node.name())) {}

  // Returns an equivalent value, or an invalid output if the node is not rewritten.
  absl::StatusOr<Output> Run() {
    if (node_.num_inputs() != 2) return Output();
    std::vector<int> ranks;
    for (const Output& in : node_.inputs()) ranks.push_back(ShapeOf(in).rank());
    MF_ASSIGN_OR_RETURN(terms_, EinsumTermsOf(node_.attr<std::string>("equation"), ranks));
    if (!FindSizes()) return Output();
    const bool summed_one = SumAlone(0, terms_.inputs[1]),
               summed_other = SumAlone(1, terms_.inputs[0]);
    const std::string &a = terms_.inputs[0], &b = terms_.inputs[1], &out = terms_.output;
    std::string batch, summed, rows, columns;
    for (const char label : a) {
      if (Has(b, label)) {
        (Has(out, label) ? batch : summed) += label;
      } else {
        rows += label;
      }
    }
    for (const char label : b) {
      if (!Has(a, label)) columns += label;
    }
    // Without summed labels, or without rows and columns, the Einsum is an element-wise product or
    // a sum of such products.
    if (summed.empty() || (rows.empty() && columns.empty())) {
      return summed_one || summed_other ? Einsum() : Output();
    }
    const Matrices x = AsMatrices(0, batch, rows, summed),
                   y = AsMatrices(1, batch, summed, columns);
    const Output product = ops::BatchMatMulV2(scope_, x.value, y.value,
                                              {.adj_x = x.transposed, .adj_y = y.transposed});
    return Transposed(Reshaped(product, batch + rows + columns), batch + rows + columns, out);
  }

 private:
  struct Matrices {
    Output value;
    bool transposed;
  };

  const Shape& ShapeOf(const Output& value) const { return c_.values().shape(value); }

  // Finds the sizes of the labels. Returns false for diagonals and for sizes that differ
  // (broadcasting).
  bool FindSizes() {
    bool plain = !IsDiagonal(terms_.output);
    for (int i = 0; i < 2; ++i) {
      const std::string& term = terms_.inputs[i];
      plain = plain && !IsDiagonal(term);
      for (size_t d = 0; d < term.size(); ++d) {
        const int64_t size = ShapeOf(node_.input(i)).dim(static_cast<int>(d));
        plain = plain && sizes_.emplace(term[d], size).first->second == size;
      }
    }
    return plain;
  }

  int64_t SizeOf(const std::string& labels) const {
    int64_t size = 1;
    for (const char label : labels) size *= sizes_.at(label);
    return size;
  }

  // Sums over the labels that only operand `i` has. Returns false if it has no such labels.
  bool SumAlone(int i, const std::string& other) {
    std::string& term = terms_.inputs[i];
    std::vector<int64_t> alone;
    for (size_t d = 0; d < term.size(); ++d) {
      const bool has_user = Has(other, term[d]) || Has(terms_.output, term[d]);
      if (!has_user) alone.push_back(static_cast<int64_t>(d));
    }
    if (alone.empty()) return false;
    inputs_[i] = ops::Sum(scope_, inputs_[i], alone);
    for (auto it = alone.rbegin(); it != alone.rend(); ++it) term.erase(*it, 1);
    return true;
  }

  // Returns an Einsum of the remaining labels. Labels of an ellipsis also become letters.
  Output Einsum() {
    std::map<char, char> letters;
    auto written = [&](std::string term) {
      for (char& label : term) {
        label = letters.emplace(label, static_cast<char>('a' + letters.size())).first->second;
      }
      return term;
    };
    const std::string a = written(terms_.inputs[0]), b = written(terms_.inputs[1]);
    return ops::Einsum(scope_, inputs_, absl::StrCat(a, ",", b, "->", written(terms_.output)));
  }

  // Returns operand `i` as [batch…, first, second], or as its transpose if the operand already has
  // that layout.
  Matrices AsMatrices(int i, const std::string& batch, const std::string& first,
                      const std::string& second) {
    const std::string& term = terms_.inputs[i];
    const bool transposed = term == batch + second + first && term != batch + first + second;
    const std::string &outer = transposed ? second : first, &inner = transposed ? first : second;
    const Output value = Transposed(inputs_[i], term, batch + outer + inner);
    std::vector<int64_t> dims;
    for (const char label : batch) dims.push_back(sizes_.at(label));
    dims.push_back(SizeOf(outer));
    dims.push_back(SizeOf(inner));
    return {ReshapedTo(value, dims), transposed};
  }

  Output Transposed(const Output& value, const std::string& from, const std::string& to) {
    if (from == to) return value;
    std::vector<int64_t> perm;
    for (const char label : to) perm.push_back(static_cast<int64_t>(from.find(label)));
    return ops::Transpose(scope_, value, perm);
  }

  Output Reshaped(const Output& value, const std::string& labels) {
    std::vector<int64_t> dims;
    for (const char label : labels) dims.push_back(sizes_.at(label));
    return ReshapedTo(value, dims);
  }

  Output ReshapedTo(const Output& value, const std::vector<int64_t>& dims) {
    if (!value.valid() || ShapeOf(value) == Shape(dims)) return value;
    return ops::Reshape(scope_, value, ops::VectorConst(scope_, dims, DT_INT64));
  }

  Compilation& c_;
  const Node& node_;
  const Scope scope_;
  std::vector<Output> inputs_{node_.inputs().begin(), node_.inputs().end()};
  EinsumTerms terms_;
  std::map<char, int64_t> sizes_;
};

absl::StatusOr<bool> ExpandEinsums(Compilation& c) {
  bool changed = false;
  for (Node* node : c.graph.Nodes()) {
    if (node->op().name != ops::kEinsum) continue;
    MF_ASSIGN_OR_RETURN(const Output value, Expansion(c, *node).Run());
    MF_RETURN_IF_ERROR(c.graph.status());
    if (!value.valid()) continue;
    c.ReplaceNode(node, value);
    changed = true;
  }
  return c.RemoveDeadNodes() || changed;
}

// --- sums of products ---------------------------------------------------------------------------

// The minimum number of products to merge. Adding two products is as fast as merging them.
constexpr size_t kMinMerged = 3;

// Returns whether the node sums over the rows of its operands, which are matrices, and is used only
// once.
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

// Returns whether merging pays off: copying the operands must be cheaper than writing the result.
bool Pays(const Compilation& c, const Node& node) {
  int64_t copied = 0;
  for (const Output& operand : node.inputs()) {
    if (c.values().shape(operand).rank() != 2) return false;
    copied += c.values().shape(operand).num_elements();
  }
  return copied <= c.values().shape(node.output(0)).num_elements();
}

// Returns the concatenation of operand `i` of all sums. Corresponding rows are adjacent, so the
// result has the same row sharding as the operands.
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
  if (merged.size() < kMinMerged) return false;

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

absl::StatusOr<bool> MergeRowSums(Compilation& c) {
  bool changed = false;
  for (Node* node : c.graph.Nodes()) {
    if (node->op().role != OpRole::kAddAll || !node->control_inputs().empty()) continue;
    MF_ASSIGN_OR_RETURN(const bool merged, Merge(c, node));
    changed |= merged;
  }
  return changed && c.RemoveDeadNodes();
}

}  // namespace

absl::StatusOr<bool> LowerToMatmul::Run(Compilation& c) {
  MF_ASSIGN_OR_RETURN(const bool expanded, ExpandEinsums(c));
  MF_ASSIGN_OR_RETURN(const bool merged, MergeRowSums(c));
  return expanded || merged;
}

}  // namespace mirrorflow
