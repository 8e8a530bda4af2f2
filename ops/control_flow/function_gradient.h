// SPDX-License-Identifier: Apache-2.0
//
// Helpers for the gradients of If and While, which are built from the gradients of their functions.
#ifndef MIRRORFLOW_OPS_CONTROL_FLOW_FUNCTION_GRADIENT_H_
#define MIRRORFLOW_OPS_CONTROL_FLOW_FUNCTION_GRADIENT_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/function_body.h"

namespace mirrorflow {

// Calls InstantiateFunction and infers the element types of the function's lists, which determine
// which values have gradients.
absl::StatusOr<FunctionBody> InstantiateForGradient(const Graph& caller,
                                                    const FunctionRef& function,
                                                    absl::string_view name,
                                                    absl::Span<const Output> args);

// Returns a placeholder in `body` for a gradient with the dtype of `like`, a value in `graph`. If
// `like` is a list, the placeholder is a list of the same kind of elements.
Output GradientArgument(const Graph& graph, const Output& like, const Shape& shape,
                        absl::string_view name, FunctionBody* body);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_CONTROL_FLOW_FUNCTION_GRADIENT_H_
