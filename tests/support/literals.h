// SPDX-License-Identifier: Apache-2.0
//
// Parses single values of a graph's text form.
#ifndef MIRRORFLOW_TESTS_SUPPORT_LITERALS_H_
#define MIRRORFLOW_TESTS_SUPPORT_LITERALS_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/tensor.h"
#include "framework/graph/attr_value.h"

namespace mirrorflow {

// Parses `3`, `0.5`, `true`, `"SAME"`, `float`, `<2,?>`, `<*>`, `float<2>{1.0, 2.0}`, `@fn{a=1}` or
// `[1, 2]`.
absl::StatusOr<AttrValue> ParseAttrValue(absl::string_view text);

// Parses `{T=float, transpose_a=true}`; an empty text gives an empty map.
absl::StatusOr<AttrMap> ParseAttrMap(absl::string_view text);

// Parses `float<2,2>{1, 2.5, nan, -inf}` or `int32<>{3}`. Floating-point elements can be written as
// integers.
absl::StatusOr<Tensor> ParseTensorLiteral(absl::string_view text);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_LITERALS_H_
