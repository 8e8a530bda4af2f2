// SPDX-License-Identifier: Apache-2.0
//
// The checks that hold for every op: its values, its gradient, its sharding rule, its traits. Each
// works on one case; a test runs them over all cases of an op.
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
  int64_t checked = 0;  // comparisons that were made: 0 if the case has nothing for this check
  std::vector<std::string> failures;

  void Fail(const OpCase& op_case, absl::string_view what);
  void Add(const CheckReport& other);
  std::string ToString() const;  // the first failures, a line each
};

// What numbers of a floating dtype differ by at 1.
double RoundingUnit(DataType dtype);

// What results of `node` may differ by from the same results computed in another order. With eps
// the rounding unit of the dtype: an element-wise op, 16 eps of the value. Any other adds terms
// that may cancel: 64 eps of the largest number among operands and results on top, or of 1.
// With half or bfloat16 in it, one eps of the value; any but an element-wise op, 2 eps of the
// largest.
Tolerance ToleranceOf(const Node& node, absl::Span<const Tensor> inputs,
                      absl::Span<const Tensor> outputs);

// The results of the case, and what it leaves in variables; where results in float are not known,
// those computed in double. Also: what the shape function knows, however little it is told of the
// operands, is true of the results; and values that it calls constant are what the kernel computes.
CheckReport CheckValues(const OpCase& op_case, const OpRegistry& ops,
                        const KernelRegistry& kernels);

// The symbolic gradient for a random dy, in double, against central differences, at up to 24
// elements of each floating operand. An element is skipped where the op is not smooth: a result is
// not finite, or the differences to the left and to the right disagree by more than 1e-3 of what
// they are (or of 1); the step is 1e-5 and gradients must agree to 1e-6, in half and bfloat16 to
// the rounding of a constant in their graph.
CheckReport CheckGradient(const OpCase& op_case, const OpRegistry& ops,
                          const KernelRegistry& kernels);

// What gradients may differ by from those that a case knows: 1e-10 of what they are and of the
// largest, 1e-5 if they were computed in float.
Tolerance ToleranceOfKnownGradient(const Tensor& gradient);

// The symbolic gradients that the case knows. None is as good as zeros.
CheckReport CheckKnownGradients(const OpCase& op_case, const OpRegistry& ops,
                                const KernelRegistry& kernels);

// The sharding rule: cut the operands along each letter over 1 to 4 replicas, unevenly and emptily,
// run the op on each replica's rows, put the results together, compare with the op on the whole.
// Partial sums as operands likewise, where the rule is linear. An expansion is compared with its
// op.
CheckReport CheckShardingRule(const OpCase& op_case, const OpRegistry& ops,
                              const KernelRegistry& kernels);

// The traits of the op, as far as the results of a case show them: kView, kCommutative,
// kElementwise, kOverwrites.
CheckReport CheckTraits(const OpCase& op_case, const OpRegistry& ops,
                        const KernelRegistry& kernels);
inline constexpr uint32_t kCheckedTraits = kView | kCommutative | kElementwise | kOverwrites;

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_OP_CHECKS_H_
