// SPDX-License-Identifier: Apache-2.0
//
// Gradient clipping, for custom uses; Minimize clips with MinimizeOptions::clipvalue, clipnorm and
// global_clipnorm. Each function returns the clipped gradients with their variables, in input
// order.
// Errors: InvalidArgument if the limit is not positive and finite.
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_CLIPPING_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_CLIPPING_H_

#include <vector>

#include "absl/types/span.h"
#include "framework/graph/scope.h"
#include "train/optimizers/variable_update.h"

namespace mirrorflow {

// Limits each element to [-clipvalue, clipvalue]. NaN stays NaN.
std::vector<GradientAndVariable> ClipByValue(const Scope& scope,
                                             absl::Span<const GradientAndVariable> gradients,
                                             double clipvalue);

// Scales each gradient by min(1, clipnorm / norm), where norm is the gradient's Euclidean norm.
std::vector<GradientAndVariable> ClipByNorm(const Scope& scope,
                                            absl::Span<const GradientAndVariable> gradients,
                                            double clipnorm);

// Scales all gradients by min(1, clipnorm / norm), where norm is the Euclidean norm of all
// gradients together.
// Source: Pascanu et al., "On the difficulty of training recurrent neural networks", 2013.
std::vector<GradientAndVariable> ClipByGlobalNorm(const Scope& scope,
                                                  absl::Span<const GradientAndVariable> gradients,
                                                  double clipnorm);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_CLIPPING_H_
