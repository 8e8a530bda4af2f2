// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_EINSUM_H_
#define MIRRORFLOW_OPS_EINSUM_H_

#include <string>
#include <vector>

#include "framework/graph/scope.h"

namespace mirrorflow {

// The terms of an equation for operands of known ranks, with one label per dimension. Letters come
// from the equation. Digits label the dimensions that `...` stands for, counted from the right, so
// that they match across terms as in broadcasting.
struct EinsumTerms {
  std::vector<std::string> inputs;
  std::string output;
};
// Parses an equation. Returns InvalidArgument if it is malformed or does not match operands of
// these ranks.
absl::StatusOr<EinsumTerms> EinsumTermsOf(absl::string_view equation, absl::Span<const int> ranks);

namespace ops {

inline constexpr absl::string_view kEinsum = "Einsum";

// Einsum: a sum of products of one or two operands, described by an equation.
//   Einsum(s, {a, b}, "bhqd,bhkd->bhqk")
// The equation has one term per operand, followed by `->` and the result's term. Each label in a
// term names a dimension; the op sums over labels that the result lacks. A label that occurs twice
// in a term selects the diagonal. `...` stands for any number of dimensions, which broadcast.
// Shapes:   dimensions with the same label have the same size.
// Dtypes:   half, bfloat16, float, double, int32, int64.
// Errors:   InvalidArgument if the equation does not match the operands.
// Gradient: Einsum of dy and the other operand.
Output Einsum(const Scope& scope, absl::Span<const Output> inputs, absl::string_view equation);

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_EINSUM_H_
