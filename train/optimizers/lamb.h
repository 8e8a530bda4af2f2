// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_LAMB_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_LAMB_H_

#include "train/optimizers/optimizer.h"

namespace mirrorflow {

// Adam whose step has the norm learning_rate * |variable|, for large batches:
//   m = beta1 * m + (1 - beta1) * gradient
//   v = beta2 * v + (1 - beta2) * gradient²
//   update = m / (1 - beta1^step) / (sqrt(v / (1 - beta2^step)) + epsilon)
//   variable -= learning_rate * |variable| / |update| * update
// where the ratio of the norms is 1 if either is 0.
// Source: You et al., "Large batch optimization for deep learning: training BERT in 76 minutes",
// 2020; Keras' form.
class Lamb final : public Optimizer {
 public:
  struct Options {
    LearningRate learning_rate = 0.001;
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-7;
  };
  Lamb() : Lamb(Options()) {}
  explicit Lamb(const Options& options) : options_(options) {}

 private:
  const LearningRate& learning_rate() const override { return options_.learning_rate; }
  absl::Status CheckOptions() const override;
  bool counts_steps() const override { return true; }
  Shared Prepare(const Scope& scope, Output learning_rate, Output step) const override;
  void Update(VariableUpdate& update, const Shared& shared) const override;
  const Options options_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_LAMB_H_
