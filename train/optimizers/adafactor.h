// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_ADAFACTOR_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_ADAFACTOR_H_

#include "train/optimizers/optimizer.h"

namespace mirrorflow {

// Adam with less memory: for a gradient of rank 2 or more, it stores only the row means and column
// means of the squares, over the last two dimensions, and no momentum. With rho =
// min(learning_rate, 1 / sqrt(step)) and beta2 = 1 - step^beta2_decay, where `step` is 1 in the
// first step:
//   square = gradient² + epsilon1
//   r = beta2 * r + (1 - beta2) * row means of square; c = the same with column means
//   v = r cᵀ / mean(r), or for ranks below 2: v = beta2 * v + (1 - beta2) * square
//   u = gradient / sqrt(v); u /= max(1, rms(u) / clip_threshold)
//   variable -= max(epsilon2, rms(variable)) * rho * u
// where rms is the root mean square of all elements.
// Errors: InvalidArgument from Minimize if beta2_decay is positive, clip_threshold is not positive,
// an epsilon is negative, or an option is not finite.
// Source: Shazeer and Stern, "Adafactor: adaptive learning rates with sublinear memory cost", 2018;
// Keras' form, without its relative_step, which has no effect.
class Adafactor final : public Optimizer {
 public:
  struct Options {
    LearningRate learning_rate = 0.001;
    double beta2_decay = -0.8;
    double epsilon1 = 1e-30;
    double epsilon2 = 1e-3;
    double clip_threshold = 1;
  };
  Adafactor() : Adafactor(Options()) {}
  explicit Adafactor(const Options& options);

 private:
  bool counts_steps() const override { return true; }
  Shared Prepare(const Scope& scope, Output learning_rate, Output step) const override;
  void Update(VariableUpdate& update, const Shared& shared) const override;
  const Options options_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_ADAFACTOR_H_
