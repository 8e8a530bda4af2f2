// SPDX-License-Identifier: Apache-2.0
//
// Adam and its variants. In the formulas, `step` (or t) is 1 in the first step.
//
// Errors: InvalidArgument from Minimize if a beta is outside [0, 1), or if another option is
// negative or not finite.
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_ADAM_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_ADAM_H_

#include <string>
#include <vector>

#include "train/optimizers/optimizer.h"

namespace mirrorflow {

// Steps along the gradient's running mean, divided by the root of its running mean square:
//   m = beta1 * m + (1 - beta1) * gradient
//   v = beta2 * v + (1 - beta2) * gradient²
//   variable -= learning_rate * sqrt(1 - beta2^step) / (1 - beta1^step) * m / (sqrt(v) + epsilon)
// With `amsgrad`, the largest v so far (for each element) replaces v in the last line.
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
  explicit Adam(const Options& options) : Adam("Adam", options, 0) {}

 protected:
  // `name` is the rule's name in error messages. `numbers` are the options whose ranges Minimize
  // checks.
  Adam(std::string name, const Options& options, double weight_decay);
  Adam(std::string name, const Options& options, double weight_decay,
       std::vector<NumericOption> numbers);

  void Update(VariableUpdate& update, const Shared& shared) const override;

 private:
  double weight_decay(const VariableUpdate&) const override { return weight_decay_; }
  Shared Prepare(const Scope& scope, Output learning_rate, Output step) const override;
  Operation Finish(const Scope& scope, const Shared& shared, absl::Span<const Operation> updates,
                   Output gate) const override;
  const Options options_;
  const double weight_decay_;
};

// Adam with decoupled weight decay: variable -= learning_rate * weight_decay * variable, then Adam.
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
      : Adam("AdamW", {o.learning_rate, o.beta1, o.beta2, o.epsilon, o.amsgrad}, o.weight_decay) {}
};

// The options of Adamax, Nadam and Lamb.
struct BetaOptions {
  LearningRate learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-7;
};

// Adam with the largest recent gradient of each element in place of the root mean square:
//   m = beta1 * m + (1 - beta1) * gradient
//   u = max(beta2 * u, |gradient|)
//   variable -= learning_rate / (1 - beta1^step) * m / (u + epsilon)
// Source: Kingma and Ba, "Adam: a method for stochastic optimization", 2015, section 7.
class Adamax final : public Optimizer {
 public:
  using Options = BetaOptions;
  Adamax() : Adamax(Options()) {}
  explicit Adamax(const Options& options);

 private:
  bool counts_steps() const override { return true; }
  Shared Prepare(const Scope& scope, Output learning_rate, Output step) const override;
  void Update(VariableUpdate& update, const Shared& shared) const override;
  const Options options_;
};

// Adam with Nesterov momentum, whose factor grows from beta1 / 2 to beta1:
//   u(t) = beta1 * (1 - 0.5 * 0.96^t); U(t) = u(1) * … * u(t)
//   m = beta1 * m + (1 - beta1) * gradient
//   v = beta2 * v + (1 - beta2) * gradient²
//   m_hat = u(t+1) * m / (1 - U(t+1)) + (1 - u(t)) * gradient / (1 - U(t))
//   variable -= learning_rate * m_hat / (sqrt(v / (1 - beta2^t)) + epsilon)
// Source: Dozat, "Incorporating Nesterov momentum into Adam", 2016; Keras' form.
class Nadam final : public Optimizer {
 public:
  using Options = BetaOptions;
  Nadam() : Nadam(Options()) {}
  explicit Nadam(const Options& options);

 private:
  bool counts_steps() const override { return true; }
  Shared Prepare(const Scope& scope, Output learning_rate, Output step) const override;
  void Update(VariableUpdate& update, const Shared& shared) const override;
  Operation Finish(const Scope& scope, const Shared& shared, absl::Span<const Operation> updates,
                   Output gate) const override;
  const Options options_;
};

// Adam for large batches: scales each update of a variable to the norm learning_rate * |variable|,
// where |x| is the Euclidean norm of all elements.
//   m = beta1 * m + (1 - beta1) * gradient
//   v = beta2 * v + (1 - beta2) * gradient²
//   update = m / (1 - beta1^step) / (sqrt(v / (1 - beta2^step)) + epsilon)
//   variable -= learning_rate * |variable| / |update| * update
// If either norm is 0, the ratio |variable| / |update| is replaced by 1.
// Source: You et al., "Large batch optimization for deep learning: training BERT in 76 minutes",
// 2020; Keras' form.
class Lamb final : public Optimizer {
 public:
  using Options = BetaOptions;
  Lamb() : Lamb(Options()) {}
  explicit Lamb(const Options& options);

 private:
  bool counts_steps() const override { return true; }
  Shared Prepare(const Scope& scope, Output learning_rate, Output step) const override;
  void Update(VariableUpdate& update, const Shared& shared) const override;
  const Options options_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_ADAM_H_
