// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_ADADELTA_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_ADADELTA_H_

#include "train/optimizers/optimizer.h"

namespace mirrorflow {

// Steps whose size adapts to the ratio of past steps and past gradients:
//   accumulated_grad = rho * accumulated_grad + (1 - rho) * gradient²
//   delta = sqrt(accumulated_delta + epsilon) / sqrt(accumulated_grad + epsilon) * gradient
//   accumulated_delta = rho * accumulated_delta + (1 - rho) * delta²
//   variable -= learning_rate * delta
// The original paper has a learning rate of 1.
// Source: Zeiler, "ADADELTA: an adaptive learning rate method", 2012; Keras' defaults.
class Adadelta final : public Optimizer {
 public:
  struct Options {
    LearningRate learning_rate = 0.001;
    double rho = 0.95;
    double epsilon = 1e-7;
  };
  Adadelta() : Adadelta(Options()) {}
  explicit Adadelta(const Options& options) : options_(options) {}

 private:
  const LearningRate& learning_rate() const override { return options_.learning_rate; }
  absl::Status CheckOptions() const override;
  Shared Prepare(const Scope& scope, Output learning_rate, Output step) const override;
  void Update(VariableUpdate& update, const Shared& shared) const override;
  const Options options_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_ADADELTA_H_
