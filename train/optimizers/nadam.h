// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_NADAM_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_NADAM_H_

#include "train/optimizers/optimizer.h"

namespace mirrorflow {

// Adam with Nesterov's momentum, whose factor grows from beta1 / 2 to beta1:
//   u(t) = beta1 * (1 - 0.5 * 0.96^t); U(t) = u(1) * … * u(t)
//   m = beta1 * m + (1 - beta1) * gradient
//   v = beta2 * v + (1 - beta2) * gradient²
//   m_hat = u(t+1) * m / (1 - U(t+1)) + (1 - u(t)) * gradient / (1 - U(t))
//   variable -= learning_rate * m_hat / (sqrt(v / (1 - beta2^t)) + epsilon)
// Source: Dozat, "Incorporating Nesterov momentum into Adam", 2016; Keras' form.
class Nadam final : public Optimizer {
 public:
  struct Options {
    LearningRate learning_rate = 0.001;
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-7;
  };
  Nadam() : Nadam(Options()) {}
  explicit Nadam(const Options& options) : options_(options) {}

 private:
  const LearningRate& learning_rate() const override { return options_.learning_rate; }
  absl::Status CheckOptions() const override;
  bool counts_steps() const override { return true; }
  Shared Prepare(const Scope& scope, Output learning_rate, Output step) const override;
  void Update(VariableUpdate& update, const Shared& shared) const override;
  Operation Finish(const Scope& scope, const Shared& shared, absl::Span<const Operation> updates,
                   Output gate) const override;
  const Options options_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_NADAM_H_
