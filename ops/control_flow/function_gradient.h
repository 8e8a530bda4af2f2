// SPDX-License-Identifier: Apache-2.0
//
// What the gradients of If and While have in common: they are made of their functions' gradients.
#ifndef MIRRORFLOW_OPS_CONTROL_FLOW_FUNCTION_GRADIENT_H_
#define MIRRORFLOW_OPS_CONTROL_FLOW_FUNCTION_GRADIENT_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/function_body.h"

namespace mirrorflow {

// InstantiateFunction, and what its lists are lists of, which says where gradients go in it.
absl::StatusOr<FunctionBody> InstantiateForGradient(const Graph& caller,
                                                    const FunctionRef& function,
                                                    absl::string_view name,
                                                    absl::Span<const Output> args);

// A placeholder in `body` for a gradient of the dtype of `like`, a value of `graph`; of a list also
// what it is a list of.
Output GradientArgument(const Graph& graph, const Output& like, const Shape& shape,
                        absl::string_view name, FunctionBody* body);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_CONTROL_FLOW_FUNCTION_GRADIENT_H_
