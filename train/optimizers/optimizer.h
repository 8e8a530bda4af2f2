// SPDX-License-Identifier: Apache-2.0
//
// The base of all optimizers: each describes an update rule. Minimize adds the gradients of a loss
// and the updates of the variables to a graph.
//
//   Operation train = Momentum({.learning_rate = 0.1, .momentum = 0.9}).Minimize(scope, loss);
//
// Include train/optimizers/optimizers.h, which has the rules.
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
  std::vector<Operation> updates;  // of the state of the reducer
};

class Optimizer {
 public:
  // Optimizers are not copied. The parameter is not const so that `Adam({})` cannot mean a copy of
  // Adam(): it is an Adam with default options.
  Optimizer(Optimizer&) = delete;
  virtual ~Optimizer() = default;

  // Adds the gradients of `loss`, a scalar, and the updates of the variables and of the moving
  // averages of the layers that compute `loss`. A step that runs the result updates every variable
  // or, if the loss is not finite, none: the reduced loss is known before the first update.
  Operation Minimize(const Scope& scope, Output loss, const MinimizeOptions& options = {}) const;

  // Returns the gradients of `loss` for those of `variables` that receive one.
  static std::vector<GradientAndVariable> ComputeGradients(const Scope& scope, Output loss,
                                                           absl::Span<const Output> variables);
  // Passes each gradient through `reduce`. Gradients that were accumulated in a variable with
  // kOnRead can be reduced, too. A step that applies the results must also run the updates, which
  // change nothing if `gate` (a bool scalar; may be invalid) is false.
  // Errors: InvalidArgument, naming the variable, if a result has another dtype or shape than the
  //         gradient; when a step is prepared for several replicas, if it is not equal on all of
  //         them.
  static ReducedGradients ReduceGradients(const Scope& scope,
                                          absl::Span<const GradientAndVariable> gradients,
                                          const GradientReducer& reduce, Output gate = Output());
  // Reduces and clips the gradients as `options` say, and updates their variables and the moving
  // averages of the layers (BatchNorm) that compute them. Nothing changes in a step in which `gate`
  // (a bool scalar; may be invalid) is false. `options.variables` is not used. What depends on the
  // number of the step, such as a schedule, counts the updates in the variable train/global_step.
  Operation ApplyGradients(const Scope& scope, absl::Span<const GradientAndVariable> gradients,
                           Output gate = Output(), const MinimizeOptions& options = {}) const;

 protected:
  // Minimize fails if the learning rate or one of `numbers`, the other options of the rule, is out
  // of range; the error names the rule.
  Optimizer(std::string name, LearningRate learning_rate, std::vector<NumericOption> numbers = {})
      : name_(std::move(name)),
        learning_rate_(std::move(learning_rate)),
        numbers_(std::move(numbers)) {}

  // Outputs that the updates of all variables share, made once. Each optimizer defines their order.
  // The learning rate comes first and has the dtype of the variables. Update gets the one of its
  // variable there (MinimizeOptions::learning_rate_multipliers).
  using Shared = std::vector<Output>;
  // `step`: 1 in the first step, in the same dtype as the learning rate; invalid unless
  // counts_steps(). By default, they share only the learning rate.
  virtual Shared Prepare(const Scope& scope, Output learning_rate, Output step) const;
  // Adds to `update` the writes of a variable and its slots.
  virtual void Update(VariableUpdate& update, const Shared& shared) const = 0;
  // Adds an operation that runs once after `updates`, for state that is not a slot of a variable.
  virtual Operation Finish(const Scope& scope, const Shared& shared,
                           absl::Span<const Operation> updates, Output gate) const;

 private:
  virtual bool counts_steps() const { return false; }
  // The decay of this variable where MinimizeOptions::weight_decay has no value.
  virtual double weight_decay(const VariableUpdate&) const { return 0; }

  // InvalidArgument if a gradient, a variable or the gate (which may be invalid) is not of this
  // graph, or a variable is not a variable's handle.
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
