// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "tests/support/op_checks.h"

namespace mirrorflow {
namespace {

// Returns the results of the op for the case's operands. Sets `operands` to the operands after the
// run.
absl::StatusOr<std::vector<Tensor>> ResultsOf(const OpCase& op_case, const OpRegistry& ops,
                                              const KernelRegistry& kernels,
                                              std::vector<Tensor>* operands = nullptr) {
  MF_ASSIGN_OR_RETURN(const CaseNode made, MakeCaseNode(op_case, ops));
  MF_ASSIGN_OR_RETURN(std::vector<Tensor> results, EvaluateCase(made, kernels));
  if (operands != nullptr) *operands = made.inputs;
  return results;
}

// Broadcasts `tensor` to `shape` and moves every element by one position in row-major order. No
// matrix product or reduction preserves this, unlike a permutation of rows or columns.
Tensor BroadcastAndShift(const Tensor& tensor, const Shape& shape) {
  Shape of_full_rank = shape;
  for (int d = 0; d < shape.rank(); ++d) {
    const int own = d - (shape.rank() - tensor.shape().rank());
    of_full_rank.set_dim(d, own < 0 ? 1 : tensor.shape().dim(own));
  }
  Tensor whole = tensor.Reshaped(of_full_rank);
  for (int d = 0; d < shape.rank(); ++d) {
    if (whole.shape().dim(d) == shape.dim(d)) continue;
    if (shape.dim(d) == 0) return SliceAlong(whole, d, 0, 0).Reshaped(shape);
    whole = ConcatenateAlong(std::vector<Tensor>(shape.dim(d), whole), d);
  }
  const Tensor flat = whole.Reshaped(Shape({whole.num_elements()}));
  const int64_t n = flat.num_elements(), last = std::max<int64_t>(n - 1, 0);
  return ConcatenateAlong({SliceAlong(flat, 0, last, n), SliceAlong(flat, 0, 0, last)}, 0)
      .Reshaped(shape);
}

std::string ElementwiseDifference(const OpCase& op_case, absl::Span<const Tensor> results,
                                  const Tolerance& tolerance, const OpRegistry& ops,
                                  const KernelRegistry& kernels) {
  const Shape& shape = results[0].shape();
  OpCase shifted = op_case;
  for (OpCase::Operand& operand : shifted.operands) {
    operand.value = BroadcastAndShift(operand.value, shape);
  }
  const auto got = ResultsOf(shifted, ops, kernels);
  if (!got.ok()) return got.status().ToString();
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].shape() != shape) return "outputs differ in shape";
    const std::string difference =
        Difference(BroadcastAndShift(results[i], shape), (*got)[i], tolerance);
    if (!difference.empty()) return difference;
  }
  return "";
}

std::string OverwriteDifference(const OpCase& op_case, absl::Span<const Tensor> after,
                                const OpRegistry& ops, const KernelRegistry& kernels) {
  OpCase other = op_case;
  for (OpCase::Operand& operand : other.operands) {
    // Starts from zeros instead of the case's value, which the op must overwrite.
    if (operand.is_variable)
      operand.value = *Tensor::Allocate(operand.value.dtype(), operand.value.shape());
  }
  std::vector<Tensor> got;
  const auto results = ResultsOf(other, ops, kernels, &got);
  if (!results.ok()) return results.status().ToString();
  for (size_t i = 0; i < got.size(); ++i) {
    const std::string difference = Difference(after[i], got[i], {});
    if (op_case.operands[i].is_variable && !difference.empty()) return difference;
  }
  return "";
}

}  // namespace

CheckReport CheckTraits(const OpCase& op_case, const OpRegistry& ops,
                        const KernelRegistry& kernels) {
  CheckReport report;
  const OpDef* op = ops.Find(op_case.op);
  if (op == nullptr || op_case.fails) return report;
  auto expect_none = [&](absl::string_view trait, const std::string& difference) {
    ++report.checked;
    if (!difference.empty()) report.Fail(op_case, absl::StrCat("not ", trait, ": ", difference));
  };
  std::vector<Tensor> operands;
  const auto results = ResultsOf(op_case, ops, kernels, &operands);
  if (!results.ok()) {
    report.Fail(op_case, results.status().ToString());
    return report;
  }
  if (op->has(kView)) {
    const Tensor& whole = operands[0];
    const bool same_size = (*results)[0].num_elements() == whole.num_elements();
    expect_none("a view", !same_size
                              ? "the output has a different size"
                              : Difference(whole, (*results)[0].Reshaped(whole.shape()), {}));
  }
  if (op->has(kCommutative)) {
    OpCase swapped = op_case;
    std::swap(swapped.operands[0], swapped.operands[1]);
    const auto got = ResultsOf(swapped, ops, kernels);
    expect_none("commutative",
                got.ok() ? Difference((*results)[0], (*got)[0], {}) : got.status().ToString());
  }
  if (op->has(kElementwise)) {
    Tolerance tolerance;
    const auto made = MakeCaseNode(op_case, ops);
    if (made.ok()) tolerance = ToleranceOf(*made->node, operands, *results);
    expect_none("element-wise", ElementwiseDifference(op_case, *results, tolerance, ops, kernels));
  }
  if (op->has(kOverwrites)) {
    expect_none("overwriting", OverwriteDifference(op_case, operands, ops, kernels));
  }
  return report;
}

}  // namespace mirrorflow
