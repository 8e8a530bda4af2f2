// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_EINSUM_H_
#define MIRRORFLOW_OPS_EINSUM_H_

#include <string>
#include <vector>

#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterEinsum(OpRegistry& ops);

// What an equation says of operands of known ranks: a label for each dimension. Letters are those
// of the equation; a dimension that `...` stands for has a digit, counted from the right, so that
// those of several terms are aligned as in broadcasting.
struct EinsumTerms {
  std::vector<std::string> inputs;
  std::string output;
};
// InvalidArgument if the equation is none, or is none for so many operands of these ranks.
absl::StatusOr<EinsumTerms> EinsumTermsOf(absl::string_view equation, absl::Span<const int> ranks);

namespace ops {

inline constexpr absl::string_view kEinsum = "Einsum";

// Einsum: the sum of products that the equation names, of one operand or two.
//   Einsum(s, {a, b}, "bhqd,bhkd->bhqk")
// The equation has a term an operand, then `->` and the term of the result. Each label of a term is
// a dimension; those that the result has not are summed. A label twice in a term is the diagonal.
// `...` stands for any dimensions; they broadcast.
// Shapes:   dimensions of one label have one size.
// Dtypes:   float, double, int32, int64, half, bfloat16.
// Errors:   InvalidArgument if the equation does not fit the operands.
// Gradient: Einsum of dy and the other operand.
Output Einsum(const Scope& scope, absl::Span<const Output> inputs, absl::string_view equation);

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_EINSUM_H_
