// SPDX-License-Identifier: Apache-2.0
//
// Optimizer: the base class of all optimizers. Each subclass defines an update rule. Minimize adds
// the gradients of a loss and the updates of the variables to a graph, and returns the operation
// that performs the updates. A step that runs this operation is a training step:
//
//   Operation train = Momentum({.learning_rate = 0.1, .momentum = 0.9}).Minimize(scope, loss);
//   MF_ASSIGN_OR_RETURN(Step step, session->Prepare({images, labels}, {loss}, {train}));
//
// Optimizers keep no state themselves; slots, such as a momentum, are variables of the graph.
// Options that are out of range are errors of Minimize and ApplyGradients. Include
// train/optimizers/optimizers.h for the subclasses.
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_OPTIMIZER_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_OPTIMIZER_H_

#include <string>
#include <utility>
#include <vector>

#include "framework/graph/scope.h"
#include "train/numeric_options.h"
#include "train/optimizers/gradient_reduction.h"
#include "train/optimizers/learning_rate.h"
#include "train/optimizers/minimize_options.h"
#include "train/optimizers/variable_update.h"

namespace mirrorflow {

struct ReducedGradients {
  std::vector<GradientAndVariable> gradients;
  std::vector<Operation> updates;  // updates of the reducer's state
};

class Optimizer {
 public:
  // Optimizers cannot be copied. The parameter is not const so that `Adam({})` is an Adam with
  // default options, not a copy of Adam().
  Optimizer(Optimizer&) = delete;
  virtual ~Optimizer() = default;

  // Adds the gradients of `loss`, and operations that update the variables and the moving averages
  // of the layers that compute `loss`. `loss` is a float scalar, the mean over the global batch. A
  // step that runs the result updates all variables or, if the loss is not finite, none: the loss
  // is reduced over the replicas before the first update.
  // Errors: InvalidArgument if the loss is not a scalar, if it depends on none of the variables
  //         through ops with a gradient, or if an option is out of range or conflicts with another.
  Operation Minimize(const Scope& scope, Output loss, const MinimizeOptions& options = {}) const;

  // Returns the gradients of `loss` with respect to `variables`, given by their handles. Omits
  // variables that receive no gradient.
  // Errors: InvalidArgument if the loss is not a scalar, or if no variable receives a gradient.
  static std::vector<GradientAndVariable> ComputeGradients(const Scope& scope, Output loss,
                                                           absl::Span<const Output> variables);
  // Passes each gradient through `reduce`, a communication hook. A gradient can be a partial value,
  // as ComputeGradients returns it, or be read from an accumulator, which is a kOnRead variable. A
  // step that applies the results must also run the updates, which change nothing if `gate` (a bool
  // scalar; may be invalid) is false.
  // Errors: InvalidArgument, naming the variable, if a result's dtype or shape differs from the
  //         gradient's; and, when a step is prepared for several replicas, if a result is not equal
  //         on all of them.
  static ReducedGradients ReduceGradients(const Scope& scope,
                                          absl::Span<const GradientAndVariable> gradients,
                                          const GradientReducer& reduce, Output gate = Output());
  // Reduces and clips the gradients according to `options`, and updates their variables and the
  // moving averages of the layers (BatchNorm) that compute them. If `gate` (a bool scalar; may be
  // invalid) is false in a step, the step changes nothing. Ignores the options that are only for
  // Minimize, and `options.variables`. Schedules, and everything else that depends on the step
  // number, use the variable train/global_step, which counts the updates.
  // Errors: InvalidArgument if an option is out of range, or if a gradient, a variable or the gate
  //         belongs to another graph.
  Operation ApplyGradients(const Scope& scope, absl::Span<const GradientAndVariable> gradients,
                           Output gate = Output(), const MinimizeOptions& options = {}) const;

 protected:
  // Minimize fails if the learning rate or one of `numbers`, the rule's other options, is out of
  // range. The error names the rule.
  Optimizer(std::string name, LearningRate learning_rate, std::vector<NumericOption> numbers = {})
      : name_(std::move(name)),
        learning_rate_(std::move(learning_rate)),
        numbers_(std::move(numbers)) {}

  // Outputs that the updates of all variables share, created once. Each optimizer defines their
  // order, except that the first is always the learning rate, in the variables' dtype. In the
  // Shared that Update receives, the learning rate is multiplied by the variable's multiplier
  // (MinimizeOptions::learning_rate_multipliers).
  using Shared = std::vector<Output>;
  // Adds the values that the updates of all variables share. `step` is 1 in the first step and has
  // the learning rate's dtype; it is invalid unless counts_steps(). By default, only the learning
  // rate is shared.
  virtual Shared Prepare(const Scope& scope, Output learning_rate, Output step) const;
  // Adds to `update` the operations that write a variable and its slots.
  virtual void Update(VariableUpdate& update, const Shared& shared) const = 0;
  // Adds an operation that runs once after `updates`, for state that is not a slot of a variable.
  virtual Operation Finish(const Scope& scope, const Shared& shared,
                           absl::Span<const Operation> updates, Output gate) const;

 private:
  // Whether Prepare uses the step number.
  virtual bool counts_steps() const { return false; }
  // The weight decay of this variable if MinimizeOptions::weight_decay is unset.
  virtual double weight_decay(const VariableUpdate&) const { return 0; }

  // Returns InvalidArgument if a gradient, a variable or the gate (which may be invalid) belongs to
  // another graph, or if a `variable` is not a variable handle.
  static absl::Status CheckGradients(const Graph& graph,
                                     absl::Span<const GradientAndVariable> gradients,
                                     const Output& gate);
  // Fails the scope and returns false if an option is invalid.
  bool Check(const Scope& scope, const MinimizeOptions& options) const;
  Operation ClipAndUpdate(const Scope& scope, std::vector<GradientAndVariable> gradients,
                          Output gate, const MinimizeOptions& options) const;
  Operation UpdateVariables(const Scope& scope, absl::Span<const GradientAndVariable> gradients,
                            Output gate, const MinimizeOptions& options) const;

  const std::string name_;
  const LearningRate learning_rate_;
  const std::vector<NumericOption> numbers_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_OPTIMIZER_H_
