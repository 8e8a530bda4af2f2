// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/adam.h"

#include <utility>

#include "ops/binary.h"
#include "ops/constant.h"
#include "ops/control.h"
#include "ops/select.h"
#include "ops/update.h"
#include "ops/variable.h"
#include "train/optimizers/term.h"

namespace mirrorflow {
namespace {

std::vector<NumericOption> NumbersOf(const BetaOptions& o) {
  return {{"beta1", o.beta1, kBelowOne},
          {"beta2", o.beta2, kBelowOne},
          {"epsilon", o.epsilon, kNotNegative}};
}

}  // namespace

Adam::Adam(std::string name, const Options& options, double weight_decay,
           std::vector<NumericOption> numbers)
    : Optimizer(std::move(name), options.learning_rate, std::move(numbers)),
      options_(options),
      weight_decay_(weight_decay) {}

Adam::Adam(std::string name, const Options& o, double weight_decay)
    : Adam(std::move(name), o, weight_decay,
           {{"weight_decay", weight_decay, kNotNegative},
            {"beta1", o.beta1, kBelowOne},
            {"beta2", o.beta2, kBelowOne},
            {"epsilon", o.epsilon, kNotNegative}}) {}

// Returns, in this order: learning_rate, beta1_power, beta2_power, beta1, beta2, epsilon, and the
// handles of both powers.
Optimizer::Shared Adam::Prepare(const Scope& scope, Output learning_rate, Output) const {
  const DataType dtype = learning_rate.dtype();
  auto power = [&](absl::string_view name, double beta) {
    return CreateOptimizerState(scope, name, {}, initializers::Constant(beta), dtype);
  };
  auto scalar = [&](absl::string_view name, double value) {
    return ops::ScalarConst(scope.WithName(name), dtype, value);
  };
  const Variable beta1_power = power("beta1_power", options_.beta1);
  const Variable beta2_power = power("beta2_power", options_.beta2);
  return {learning_rate,
          beta1_power.value,
          beta2_power.value,
          scalar("beta1", options_.beta1),
          scalar("beta2", options_.beta2),
          scalar("epsilon", options_.epsilon),
          beta1_power.handle,
          beta2_power.handle};
}

void Adam::Update(VariableUpdate& u, const Shared& shared) const {
  const Shared& s = shared;
  const Variable m = u.Slot("m"), v = u.Slot("v");
  if (!options_.amsgrad) {
    u.Add(ops::ResourceApplyAdam(u.write_scope(), u.variable(), m.handle, v.handle,
                                 {s[1], s[2], s[0], s[3], s[4], s[5]}, u.gradient(),
                                 {.gates = u.gates()}));
    return;
  }
  const Variable largest = u.Slot("v_hat");
  const Term g = u.ReducedGradient();
  const Term next_m = u.Average(m, options_.beta1, g);
  const Term next_v = u.Average(v, options_.beta2, Square(g));
  const Term v_hat = Max(u.term(largest.value), next_v);
  const Term rate = u.term(s[0]) * Sqrt(1 - u.term(s[2])) / (1 - u.term(s[1]));
  u.Assign(largest, v_hat);
  u.Subtract(rate * next_m / (Sqrt(v_hat) + options_.epsilon));
}

// Multiplies each power by its beta once in every step that updates the variables, after all
// updates have read it.
Operation Adam::Finish(const Scope& scope, const Shared& shared,
                       absl::Span<const Operation> updates, Output gate) const {
  const Shared& v = shared;
  const Scope after = scope.WithControlDependencies(updates);
  std::vector<Operation> assigns;
  for (int i = 0; i < 2; ++i) {
    Output next = ops::Mul(scope, v[1 + i], v[3 + i]);
    if (gate.valid()) next = ops::SelectV2(scope, gate, next, v[1 + i]);
    assigns.push_back(ops::AssignVariableOp(after, v[6 + i], next));
  }
  return scope.ok() ? ops::Group(scope, assigns) : Operation();
}

Adamax::Adamax(const Options& o)
    : Optimizer("Adamax", o.learning_rate, NumbersOf(o)), options_(o) {}

// Returns, in this order: learning_rate, 1 - beta1^step.
Optimizer::Shared Adamax::Prepare(const Scope& scope, Output learning_rate, Output step) const {
  return {learning_rate, 1 - Pow(options_.beta1, Term(scope, step))};
}

void Adamax::Update(VariableUpdate& u, const Shared& shared) const {
  const Variable momentum = u.Slot("momentum"), norm = u.Slot("norm");
  const Term g = u.ReducedGradient(), rate = u.term(shared[0]), correction = u.term(shared[1]);
  const Term m = u.Average(momentum, options_.beta1, g);
  const Term largest = Max(options_.beta2 * u.term(norm.value), Abs(g));
  u.Assign(norm, largest);
  u.Subtract(rate / correction * m / (largest + options_.epsilon));
}

Nadam::Nadam(const Options& o) : Optimizer("Nadam", o.learning_rate, NumbersOf(o)), options_(o) {}

// Returns, in this order: learning_rate; the factors of m and of the gradient in m_hat;
// 1 - beta2^step; the product U before and after the step; and the handle of the variable that
// stores U.
Optimizer::Shared Nadam::Prepare(const Scope& scope, Output learning_rate, Output step) const {
  const Variable product =
      CreateOptimizerState(scope, "u_product", {}, initializers::Ones(), learning_rate.dtype());
  auto factor = [&](const Term& t) { return options_.beta1 * (1 - 0.5 * Pow(0.96, t)); };
  const Term t(scope, step), now = factor(t), next = factor(t + 1);
  const Term all = Term(scope, product.value) * now;
  return {learning_rate,         next / (1 - all * next),
          (1 - now) / (1 - all), 1 - Pow(options_.beta2, t),
          product.value,         all,
          product.handle};
}

void Nadam::Update(VariableUpdate& u, const Shared& shared) const {
  const Variable momentum = u.Slot("momentum"), velocity = u.Slot("velocity");
  const Term g = u.ReducedGradient();
  const Term m = u.Average(momentum, options_.beta1, g);
  const Term v = u.Average(velocity, options_.beta2, Square(g));
  const Term m_hat = u.term(shared[1]) * m + u.term(shared[2]) * g;
  u.Subtract(u.term(shared[0]) * m_hat / (Sqrt(v / u.term(shared[3])) + options_.epsilon));
}

Operation Nadam::Finish(const Scope& scope, const Shared& shared, absl::Span<const Operation>,
                        Output gate) const {
  Output product = shared[5];
  if (gate.valid()) product = ops::SelectV2(scope, gate, product, shared[4]);
  return ops::AssignVariableOp(scope, shared[6], product);
}

Lamb::Lamb(const Options& o) : Optimizer("Lamb", o.learning_rate, NumbersOf(o)), options_(o) {}

// Returns, in this order: learning_rate, 1 - beta1^step, 1 - beta2^step.
Optimizer::Shared Lamb::Prepare(const Scope& scope, Output learning_rate, Output step) const {
  const Term t(scope, step);
  return {learning_rate, 1 - Pow(options_.beta1, t), 1 - Pow(options_.beta2, t)};
}

void Lamb::Update(VariableUpdate& u, const Shared& shared) const {
  const Variable momentum = u.Slot("momentum"), velocity = u.Slot("velocity");
  const Term g = u.ReducedGradient();
  const Term m = u.Average(momentum, options_.beta1, g);
  const Term v = u.Average(velocity, options_.beta2, Square(g));
  const Term update = m / u.term(shared[1]) / (Sqrt(v / u.term(shared[2])) + options_.epsilon);
  const Term variable_norm = Sqrt(SumOf(Square(u.Read())));
  const Term update_norm = Sqrt(SumOf(Square(update)));
  auto is_positive = [&](const Term& x) { return ops::Greater(x.scope(), x, x.Number(0)); };
  const Output has_ratio =
      ops::LogicalAnd(u.scope(), is_positive(variable_norm), is_positive(update_norm));
  const Term ratio = u.term(
      ops::SelectV2(u.scope(), has_ratio, variable_norm / update_norm, update_norm.Number(1)));
  u.Subtract(ratio * u.term(shared[0]) * update);
}

}  // namespace mirrorflow
