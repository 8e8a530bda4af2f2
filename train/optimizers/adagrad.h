// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_ADAGRAD_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_ADAGRAD_H_

#include "train/optimizers/optimizer.h"

namespace mirrorflow {

// accumulator += gradient²; variable -= learning_rate * gradient / (sqrt(accumulator) + epsilon).
// Source: Duchi et al., "Adaptive subgradient methods for online learning and stochastic
// optimization", 2011.
class Adagrad final : public Optimizer {
 public:
  struct Options {
    LearningRate learning_rate = 0.001;
    double initial_accumulator_value = 0.1;
    double epsilon = 1e-7;
  };
  Adagrad() : Adagrad(Options()) {}
  explicit Adagrad(const Options& options) : options_(options) {}

 private:
  const LearningRate& learning_rate() const override { return options_.learning_rate; }
  absl::Status CheckOptions() const override;
  Shared Prepare(const Scope& scope, Output learning_rate, Output step) const override;
  void Update(VariableUpdate& update, const Shared& shared) const override;
  const Options options_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_ADAGRAD_H_
