// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_ADAMAX_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_ADAMAX_H_

#include "train/optimizers/optimizer.h"

namespace mirrorflow {

// Adam with the largest recent gradient in place of the root:
//   m = beta1 * m + (1 - beta1) * gradient
//   u = max(beta2 * u, |gradient|)
//   variable -= learning_rate / (1 - beta1^step) * m / (u + epsilon)
// Source: Kingma and Ba, "Adam: a method for stochastic optimization", 2015, section 7.
class Adamax final : public Optimizer {
 public:
  struct Options {
    LearningRate learning_rate = 0.001;
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-7;
  };
  Adamax() : Adamax(Options()) {}
  explicit Adamax(const Options& options) : options_(options) {}

 private:
  const LearningRate& learning_rate() const override { return options_.learning_rate; }
  absl::Status CheckOptions() const override;
  bool counts_steps() const override { return true; }
  Shared Prepare(const Scope& scope, Output learning_rate, Output step) const override;
  void Update(VariableUpdate& update, const Shared& shared) const override;
  const Options options_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_ADAMAX_H_
