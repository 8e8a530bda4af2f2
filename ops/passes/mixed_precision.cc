// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/mixed_precision.h"

#include <algorithm>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "ops/cast.h"

namespace mirrorflow {
namespace {

// Casting an operand (a bias, a factor) that is at least this many times smaller than the others
// costs next to nothing.
constexpr int64_t kMuchSmaller = 8;

class Mixing {
 public:
  explicit Mixing(Compilation& c) : c_(c), dtype_(c.options.compute_dtype) {}

  bool ShouldLower(const Node& node) const {
    const OpDef& op = node.op();
    if (!IsOfFloats(node) || !Computes(op)) return false;
    if (op.has(kSumsProducts)) return true;
    const bool keeps_precision = op.has(kKeepsPrecision) || op.has(kView) ||
                                 (op.has(kElementwise) && !op.has(kNeedsPrecision));
    return keeps_precision && HasLowOperands(node);
  }

  // Replaces the node with a node of the lower dtype, and casts its inputs and outputs.
  absl::Status Lower(Node* node) {
    std::vector<Output> inputs;
    for (int i = 0; i < node->num_inputs(); ++i) {
      const Output input = node->input(i);
      inputs.push_back(IsOfT(*node, i) ? LowOf(input) : input);
    }
    AttrMap attrs = node->attrs();
    attrs["T"] = dtype_;
    MF_ASSIGN_OR_RETURN(
        Node* const low,
        c_.graph.AddNode(c_.graph.UniqueName(node->name()), node->op(), attrs, inputs,
                         {node->control_inputs().begin(), node->control_inputs().end()}));
    MF_RETURN_IF_ERROR(c_.values().Infer(*low));
    for (int i = 0; i < node->num_outputs(); ++i) {
      c_.shardings.Set(low->output(i), c_.shardings.at(node->output(i)));
      Output up = low->output(i);
      if (up.dtype() != node->output_dtype(i)) {
        up = CastTo(up, node->output_dtype(i));
        low_of_.emplace(up, low->output(i));
        made_of_low_.insert(up);
      }
      c_.ReplaceValue(node->output(i), up);
    }
    c_.ReplaceOperation(node, low);
    c_.graph.RemoveNode(node);
    return c_.graph.status();
  }

 private:
  // Returns whether input `i` has the dtype of attribute T.
  static bool IsOfT(const Node& node, int i) {
    for (const ArgDef& arg : node.op().inputs) {
      const absl::StatusOr<ArgRange> range = FindArg(node.op().inputs, node.attrs(), arg.name);
      if (range.ok() && range->first <= i && i < range->last) return arg.type_attr == "T";
    }
    return false;
  }
  bool IsOfFloats(const Node& node) const {
    const AttrDef* const type = node.op().FindAttr("T");
    if (type == nullptr || type->type != "type") return false;  // for a loop, T is a list of types
    if (node.attr<DataType>("T") != DT_FLOAT) return false;
    const AttrList& allowed = type->allowed;
    return allowed.empty() || absl::c_linear_search(allowed, AttrList::value_type(dtype_));
  }
  bool IsLow(const Output& value) const { return made_of_low_.contains(value); }

  // Returns whether at least one operand was computed in the lower dtype, and every other operand
  // either was too or is small.
  bool HasLowOperands(const Node& node) const {
    int64_t largest_low = -1, largest_other = 0;
    for (int i = 0; i < node.num_inputs(); ++i) {
      if (!IsOfT(node, i)) continue;
      const int64_t size = c_.values().shape(node.input(i)).num_elements();
      int64_t& largest = IsLow(node.input(i)) ? largest_low : largest_other;
      largest = std::max(largest, size);
    }
    return largest_low >= 0 && largest_other * kMuchSmaller <= largest_low;
  }

  Output CastTo(const Output& value, DataType dtype) {
    const Output cast = ops::Cast(c_.scope(), value, dtype);
    c_.shardings.Set(cast, c_.shardings.at(value));
    return cast;
  }
  Output LowOf(const Output& value) {
    const auto known = low_of_.find(value);
    if (known != low_of_.end()) return known->second;
    return low_of_.emplace(value, CastTo(value, dtype_)).first->second;
  }

  Compilation& c_;
  const DataType dtype_;
  absl::flat_hash_map<Output, Output> low_of_;  // by float value
  absl::flat_hash_set<Output> made_of_low_;     // float values computed by a lowered node
};

}  // namespace

absl::StatusOr<bool> MixedPrecision::Run(Compilation& c) {
  const DataType dtype = c.options.compute_dtype;
  if (dtype == DT_FLOAT) return false;
  if (dtype != DT_BFLOAT16 && dtype != DT_HALF) {
    return absl::InvalidArgumentError(
        absl::StrCat("compute_dtype: expected float, bfloat16 or half, got ", DataTypeName(dtype)));
  }
  MF_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(c.graph));
  Mixing mixing(c);
  bool changed = false;
  for (Node* node : order) {
    if (!mixing.ShouldLower(*node)) continue;
    MF_RETURN_IF_ERROR(mixing.Lower(node));
    changed = true;
  }
  return changed && c.RemoveDeadNodes();
}

}  // namespace mirrorflow
