// SPDX-License-Identifier: Apache-2.0
//
// Bounds on gradients. All functions keep the order of the gradients.
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

// Scales each gradient by min(1, clipnorm / norm), where norm is the square root of the sum of its
// squares.
std::vector<GradientAndVariable> ClipByNorm(const Scope& scope,
                                            absl::Span<const GradientAndVariable> gradients,
                                            double clipnorm);

// Scales all gradients by min(1, clipnorm / norm), where norm is the square root of the sum of all
// squares. Source: Pascanu et al., "On the difficulty of training recurrent neural networks", 2013.
std::vector<GradientAndVariable> ClipByGlobalNorm(const Scope& scope,
                                                  absl::Span<const GradientAndVariable> gradients,
                                                  double clipnorm);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_CLIPPING_H_
