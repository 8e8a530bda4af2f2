// SPDX-License-Identifier: Apache-2.0
//
// The update of one variable in one step, which an optimizer's rule builds as part of the graph:
//
//   void Lion::Update(VariableUpdate& u, const Shared& shared) const {
//     const Variable momentum = u.Slot("momentum");
//     const Term m = u.term(momentum.value), g = u.ReducedGradient();
//     u.Subtract(u.term(shared[0]) * Sign(beta1 * m + (1 - beta1) * g));
//     u.Average(momentum, beta2, g);
//   }
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_VARIABLE_UPDATE_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_VARIABLE_UPDATE_H_

#include <optional>
#include <vector>

#include "framework/graph/scope.h"
#include "train/optimizers/term.h"
#include "train/variable.h"

namespace mirrorflow {

struct GradientAndVariable {
  Output gradient;
  Output variable;  // the handle
};

// Creates a variable that only the optimizer uses. It is not trainable.
Variable CreateOptimizerState(
    const Scope& scope, absl::string_view name, const Shape& shape, const Initializer& initializer,
    DataType dtype, VariableSynchronization synchronization = VariableSynchronization::kOnWrite);

class VariableUpdate {
 public:
  // `gate` is a bool scalar, or invalid. If it is false in a step, the step writes nothing.
  VariableUpdate(const Scope& scope, const GradientAndVariable& gv, Output gate)
      : scope_(scope), write_scope_(scope), gv_(gv), gate_(gate) {}

  // Returns the scope for values that are computed before the update.
  const Scope& scope() const { return scope_; }
  // Returns the scope for ops that read or write the variable. They see all writes that were added
  // before them.
  const Scope& write_scope() const { return write_scope_; }

  const Output& variable() const { return gv_.variable; }
  const Shape& shape() const;
  DataType dtype() const;
  // Returns the gradient, possibly as a partial sum. Update ops (ops/update.h) reduce it.
  const Output& gradient() const { return gv_.gradient; }
  // Returns the gradient reduced over the replicas, for use in any formula.
  Term ReducedGradient() const;
  // Returns the variable's value after the writes added so far.
  Term Read() const;
  Term term(Output value) const { return Term(scope_, value); }
  // Returns the gate as the trailing operands of an update op; empty if the gate is invalid.
  std::vector<Output> gates() const;

  // Creates state for this variable, in a scope named after it. It has the variable's dtype and, by
  // default, its shape. Every element starts at `initial`.
  Variable Slot(absl::string_view name, double initial = 0);
  Variable Slot(absl::string_view name, const Shape& shape, double initial = 0);

  // Makes `next` the value of a slot after the step. Call it at most once for each slot.
  void Assign(const Variable& slot, Output next);
  // Sets a slot to the running mean decay * slot + (1 - decay) * value, and returns the mean.
  Term Average(const Variable& slot, double decay, const Term& value);
  // variable = next
  void AssignVariable(Output next);
  // variable -= amount
  void Subtract(Output amount);
  // Adds an update op, built in write_scope() with gates(), which writes the variable.
  void Add(Operation update);

  // Returns all operations added so far. Each step must run all of them.
  const std::vector<Operation>& operations() const { return operations_; }

 private:
  const Scope scope_;
  Scope write_scope_;
  const GradientAndVariable gv_;
  const Output gate_;
  std::optional<Scope> slots_;
  std::vector<Operation> operations_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_VARIABLE_UPDATE_H_
