// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_ADAM_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_ADAM_H_

#include "train/optimizers/optimizer.h"

namespace mirrorflow {

// Steps from the running means of a gradient and of its square:
//   m = beta1 * m + (1 - beta1) * gradient
//   v = beta2 * v + (1 - beta2) * gradient²
//   variable -= learning_rate * sqrt(1 - beta2^step) / (1 - beta1^step) * m / (sqrt(v) + epsilon)
// With amsgrad, the largest v so far replaces v in the last line.
// Sources: Kingma and Ba, "Adam: a method for stochastic optimization", 2015; TensorFlow's form,
// which adds epsilon to the uncorrected root; Reddi et al., "On the convergence of Adam and
// beyond", 2018 (amsgrad).
class Adam : public Optimizer {
 public:
  struct Options {
    LearningRate learning_rate = 0.001;
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-7;
    bool amsgrad = false;
  };
  Adam() : Adam(Options()) {}
  explicit Adam(const Options& options) : Adam(options, 0, "Adam") {}

 protected:
  // `name`: of the class, for errors.
  Adam(const Options& options, double weight_decay, const char* name)
      : options_(options), weight_decay_(weight_decay), name_(name) {}

  void Update(VariableUpdate& update, const Shared& shared) const override;

 private:
  const LearningRate& learning_rate() const override { return options_.learning_rate; }
  absl::Status CheckOptions() const override;
  double weight_decay(const VariableUpdate&) const override { return weight_decay_; }
  Shared Prepare(const Scope& scope, Output learning_rate, Output step) const override;
  Operation Finish(const Scope& scope, const Shared& shared, absl::Span<const Operation> updates,
                   Output gate) const override;
  const Options options_;
  const double weight_decay_;
  const char* const name_;
};

// variable -= learning_rate * weight_decay * variable, then Adam.
// Source: Loshchilov and Hutter, "Decoupled weight decay regularization", 2019; Keras' order.
class AdamW final : public Adam {
 public:
  struct Options {
    LearningRate learning_rate = 0.001;
    double weight_decay = 0.004;
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-7;
    bool amsgrad = false;
  };
  AdamW() : AdamW(Options()) {}
  explicit AdamW(const Options& o)
      : Adam({o.learning_rate, o.beta1, o.beta2, o.epsilon, o.amsgrad}, o.weight_decay, "AdamW") {}
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_ADAM_H_
