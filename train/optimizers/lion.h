// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_LION_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_LION_H_

#include "train/optimizers/optimizer.h"

namespace mirrorflow {

// Changes each element by learning_rate, in the direction of the sign of an interpolated momentum:
//   variable -= learning_rate * sign(beta1 * m + (1 - beta1) * gradient)
//   m = beta2 * m + (1 - beta2) * gradient
// Errors: InvalidArgument from Minimize if beta1 is outside (0, 1] or beta2 outside [0, 1].
// Source: Chen et al., "Symbolic discovery of optimization algorithms", 2023; Keras' defaults.
class Lion final : public Optimizer {
 public:
  struct Options {
    LearningRate learning_rate = 0.001;
    double beta1 = 0.9;
    double beta2 = 0.99;
  };
  Lion() : Lion(Options()) {}
  explicit Lion(const Options& options);

 private:
  void Update(VariableUpdate& update, const Shared& shared) const override;
  const Options options_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_LION_H_
