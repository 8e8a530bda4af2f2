// SPDX-License-Identifier: Apache-2.0
//
// Optimizers: each describes an update rule. Minimize adds the gradients of a loss and the updates
// of the variables to a graph.
//
//   Operation train = Momentum({.learning_rate = 0.1, .momentum = 0.9}).Minimize(scope, loss);
#ifndef MIRRORFLOW_TRAIN_OPTIMIZER_H_
#define MIRRORFLOW_TRAIN_OPTIMIZER_H_

#include <vector>

#include "framework/graph/scope.h"
#include "train/learning_rate.h"

namespace mirrorflow {

struct GradientAndVariable {
  Output gradient;
  Output variable;  // the handle
};

struct MinimizeOptions {
  // Handles of the variables to update. Empty: all trainable variables.
  std::vector<Output> variables = {};
  // Upper bound on the global norm of the gradients (see ClipByGlobalNorm). 0: no clipping.
  double clip_norm = 0;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Adds the gradients of `loss`, a scalar, and the updates of the variables and of the moving
  // averages of the layers that compute `loss`. A step that runs the result updates every variable
  // or, if the loss is not finite, none: the reduced loss is known before the first update.
  Operation Minimize(const Scope& scope, Output loss, const MinimizeOptions& options = {}) const;

  // Returns the gradients of `loss` for those of `variables` that receive one.
  static std::vector<GradientAndVariable> ComputeGradients(const Scope& scope, Output loss,
                                                           absl::Span<const Output> variables);
  // Updates the variables, and the moving averages of the layers (BatchNorm) that compute the
  // gradients. Nothing changes in a step in which `gate` (a bool scalar; may be invalid) is false.
  // A learning rate schedule counts steps in a separate variable.
  Operation ApplyGradients(const Scope& scope, absl::Span<const GradientAndVariable> gradients,
                           Output gate = Output()) const;

 protected:
  // Outputs that the updates of all variables share, made once. Each optimizer defines their order.
  // The learning rate comes first and has the dtype of the variables.
  using Shared = std::vector<Output>;
  virtual Shared Prepare(const Scope& scope, Output learning_rate) const = 0;
  virtual Operation Update(const Scope& scope, const GradientAndVariable& gv, const Shared& shared,
                           Output gate) const = 0;
  // Adds an operation that runs once after `updates`, for state that is not a slot of a variable.
  virtual Operation Finish(const Scope& scope, const Shared& shared,
                           absl::Span<const Operation> updates, Output gate) const;

 private:
  virtual const LearningRate& learning_rate() const = 0;
};

// Scales all gradients by min(1, clip_norm / norm), where norm is the square root of the sum of all
// squares. Source: Pascanu et al., "On the difficulty of training recurrent neural networks", 2013.
std::vector<GradientAndVariable> ClipByGlobalNorm(const Scope& scope,
                                                  absl::Span<const GradientAndVariable> gradients,
                                                  double clip_norm);

// variable -= learning_rate * gradient
class GradientDescent final : public Optimizer {
 public:
  struct Options {
    LearningRate learning_rate = 0.01;
  };
  explicit GradientDescent(const Options& options) : options_(options) {}

 private:
  const LearningRate& learning_rate() const override { return options_.learning_rate; }
  Shared Prepare(const Scope& scope, Output learning_rate) const override;
  Operation Update(const Scope& scope, const GradientAndVariable& gv, const Shared& shared,
                   Output gate) const override;
  const Options options_;
};
using SGD = GradientDescent;

// accumulator = momentum * accumulator + gradient; variable -= learning_rate * accumulator, or with
// Nesterov's momentum learning_rate * (gradient + momentum * accumulator).
class Momentum final : public Optimizer {
 public:
  struct Options {
    LearningRate learning_rate = 0.01;
    double momentum = 0.9;
    bool use_nesterov = false;
  };
  explicit Momentum(const Options& options) : options_(options) {}

 private:
  const LearningRate& learning_rate() const override { return options_.learning_rate; }
  Shared Prepare(const Scope& scope, Output learning_rate) const override;
  Operation Update(const Scope& scope, const GradientAndVariable& gv, const Shared& shared,
                   Output gate) const override;
  const Options options_;
};

// Source: Kingma and Ba, "Adam: a method for stochastic optimization", 2015; TensorFlow's form,
// which adds epsilon to the uncorrected root.
class Adam : public Optimizer {
 public:
  struct Options {
    LearningRate learning_rate = 0.001;
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-7;
  };
  explicit Adam(const Options& options) : Adam(options, 0) {}

 protected:
  Adam(const Options& options, double weight_decay)
      : options_(options), weight_decay_(weight_decay) {}

 private:
  const LearningRate& learning_rate() const override { return options_.learning_rate; }
  Shared Prepare(const Scope& scope, Output learning_rate) const override;
  Operation Update(const Scope& scope, const GradientAndVariable& gv, const Shared& shared,
                   Output gate) const override;
  Operation Finish(const Scope& scope, const Shared& shared, absl::Span<const Operation> updates,
                   Output gate) const override;
  const Options options_;
  const double weight_decay_;
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
  };
  explicit AdamW(const Options& o)
      : Adam({o.learning_rate, o.beta1, o.beta2, o.epsilon}, o.weight_decay) {}
};

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
  explicit Adagrad(const Options& options) : options_(options) {}

 private:
  const LearningRate& learning_rate() const override { return options_.learning_rate; }
  Shared Prepare(const Scope& scope, Output learning_rate) const override;
  Operation Update(const Scope& scope, const GradientAndVariable& gv, const Shared& shared,
                   Output gate) const override;
  const Options options_;
};

// rms = rho * rms + (1 - rho) * gradient²
// accumulator = momentum * accumulator + learning_rate * gradient / sqrt(rms + epsilon)
// variable -= accumulator
// Source: Hinton, "Neural networks for machine learning", lecture 6e, 2012.
class RMSProp final : public Optimizer {
 public:
  struct Options {
    LearningRate learning_rate = 0.001;
    double rho = 0.9;
    double momentum = 0;
    double epsilon = 1e-7;
  };
  explicit RMSProp(const Options& options) : options_(options) {}

 private:
  const LearningRate& learning_rate() const override { return options_.learning_rate; }
  Shared Prepare(const Scope& scope, Output learning_rate) const override;
  Operation Update(const Scope& scope, const GradientAndVariable& gv, const Shared& shared,
                   Output gate) const override;
  const Options options_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZER_H_
