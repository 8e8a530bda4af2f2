// SPDX-License-Identifier: Apache-2.0
//
// Checks that every op must pass: its values, its gradient, its sharding rule and its traits. Each
// check takes one case; a test runs it on all cases of an op.
#ifndef MIRRORFLOW_TESTS_SUPPORT_OP_CHECKS_H_
#define MIRRORFLOW_TESTS_SUPPORT_OP_CHECKS_H_

#include <string>
#include <vector>

#include "framework/graph/op_registry.h"
#include "framework/runtime/kernel_registry.h"
#include "tests/support/op_cases.h"
#include "tests/support/tensors.h"

namespace mirrorflow {

struct CheckReport {
  int64_t checked = 0;  // number of comparisons; 0 if the check does not apply to the case
  std::vector<std::string> failures;

  void Fail(const OpCase& op_case, absl::string_view what);
  void Add(const CheckReport& other);
  std::string ToString() const;  // the first failures, one per line
};

// Returns the distance from 1 to the next number of a floating-point dtype.
double RoundingUnit(DataType dtype);
// Returns the largest rounding unit of the floating-point tensors, or 0 if there are none.
double LargestUnit(absl::Span<const Tensor> inputs, absl::Span<const Tensor> outputs);

// Returns the tolerance for results of `node` that are computed in a different order, where eps is
// the rounding unit of the dtype. An element-wise op gets 16 eps of the value. Any other op adds
// terms that can cancel, so it also gets 64 eps of the largest number among operands and results,
// or of 1. With half or bfloat16, the tolerance is one eps of the value and, unless the op is
// element-wise, 2 eps of the largest number.
Tolerance ToleranceOf(const Node& node, absl::Span<const Tensor> inputs,
                      absl::Span<const Tensor> outputs);

// Checks the case's results and final variables. If the case has no results, compares float results
// with those in double precision. Also checks the shape function, with full and with partial
// knowledge of the operands: its shapes must match the results, and any constants that it infers
// must equal the values that the kernel computes.
CheckReport CheckValues(const OpCase& op_case, const OpRegistry& ops,
                        const KernelRegistry& kernels);

// Checks the symbolic gradient for a random dy, in double precision, against central differences
// with a step of 1e-5, at up to 24 elements of each floating-point operand. Skips an element where
// the op is not smooth: a result is not finite, or the differences to the left and to the right
// disagree by more than 1e-3 of their size (or of 1). Gradients must agree to 1e-6, or, in half and
// bfloat16, to the rounding of a constant in their graph.
CheckReport CheckGradient(const OpCase& op_case, const OpRegistry& ops,
                          const KernelRegistry& kernels);

// Returns the tolerance for the known gradients of a case: 1e-10 of the value and of the largest
// value, or 1e-5 if they were computed in float.
Tolerance ToleranceOfKnownGradient(const Tensor& gradient);

// Checks the symbolic gradients against the known ones. A missing gradient is treated as zeros.
CheckReport CheckKnownGradients(const OpCase& op_case, const OpRegistry& ops,
                                const KernelRegistry& kernels);

// Checks the sharding rule. Splits the operands along each letter over 1 to 4 replicas, also
// unevenly and with empty shards, and runs the op on each replica's rows. Concatenates the results
// and compares them with the op's results for the whole operands. If the rule is linear, does the
// same with partial sums as operands. Compares an expansion with its op.
CheckReport CheckShardingRule(const OpCase& op_case, const OpRegistry& ops,
                              const KernelRegistry& kernels);

// Checks those traits of the op that the results of a case reveal: kView, kCommutative,
// kElementwise, kOverwrites.
CheckReport CheckTraits(const OpCase& op_case, const OpRegistry& ops,
                        const KernelRegistry& kernels);
inline constexpr uint32_t kCheckedTraits = kView | kCommutative | kElementwise | kOverwrites;

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_OP_CHECKS_H_
