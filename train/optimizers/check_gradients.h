// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_CHECK_GRADIENTS_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_CHECK_GRADIENTS_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/graph/graph.h"
#include "train/optimizers/variable_update.h"

namespace mirrorflow {

// InvalidArgument if a gradient, a variable or the gate (which may be invalid) is not of this
// graph, or a variable is not a variable's handle.
absl::Status CheckGradients(const Graph& graph, absl::Span<const GradientAndVariable> gradients,
                            const Output& gate);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_CHECK_GRADIENTS_H_
