// SPDX-License-Identifier: Apache-2.0
//
// Dynamic loss scaling: multiplies the loss by a factor, the scale, that keeps small half-precision
// gradients from becoming 0, and adapts it from step to step (MinimizeOptions::loss_scale).
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_LOSS_SCALE_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_LOSS_SCALE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/graph/scope.h"
#include "train/optimizers/variable_update.h"

namespace mirrorflow {

// The scale doubles after dynamic_growth_steps consecutive steps with finite gradients. A step with
// a nonfinite gradient changes no trainable variable and halves the scale.
// Source: Micikevicius et al., "Mixed precision training", 2018; Keras' LossScaleOptimizer.
struct LossScaleOptions {
  double initial_scale = 32768;         // above 0
  int64_t dynamic_growth_steps = 2000;  // at least 1
};

class LossScale {
 public:
  // Creates the variables loss_scale/dynamic_scale and loss_scale/step_counter.
  LossScale(const Scope& scope, const LossScaleOptions& options);

  // Returns the loss to differentiate: loss * scale, as float or double.
  Output Scale(Output loss) const;
  // Divides the gradients by the scale.
  std::vector<GradientAndVariable> Unscale(absl::Span<const GradientAndVariable> gradients) const;
  // Returns whether all elements of all gradients are finite: a bool scalar, equal on all replicas.
  Output AllFinite(absl::Span<const GradientAndVariable> gradients) const;
  // Returns the operations that adapt the scale after a step. They have no effect if `counts` (a
  // bool scalar; may be invalid) is false.
  std::vector<Operation> Adapt(Output all_finite, Output counts = Output()) const;

 private:
  const Scope s_;
  const LossScaleOptions options_;
  Variable scale_, counter_;
};

// Returns InvalidArgument if an option is out of range.
absl::Status CheckLossScaleOptions(const LossScaleOptions& options);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_LOSS_SCALE_H_
