// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/decay_schedules.h"

#include <cmath>

#include "ops/binary.h"
#include "ops/select.h"
#include "ops/unary.h"
#include "train/numeric_options.h"
#include "train/optimizers/term.h"

namespace mirrorflow::schedules {
namespace {

constexpr double kPi = 3.14159265358979323846;

Term Floor(const Term& x) { return x.With(ops::Floor(x.scope(), x)); }

// The part of the decay that is done, in units of `decay_steps`.
Term Progress(const Term& step, int64_t decay_steps, bool staircase) {
  const Term done = step / static_cast<double>(decay_steps);
  return staircase ? Floor(done) : done;
}

}  // namespace

LearningRateSchedule ExponentialDecay(const ExponentialDecayOptions& o) {
  return [o](const Scope& parent, Output step) {
    const Scope scope = parent.SubScope("exponential_decay");
    if (!CheckNumbers(scope, "ExponentialDecay",
                      {{"initial_learning_rate", o.initial_learning_rate, kNotNegative},
                       {"decay_steps", o.decay_steps, kAtLeastOne},
                       {"decay_rate", o.decay_rate, kNotNegative}})) {
      return Output();
    }
    const Term done = Progress(Term(scope, step), o.decay_steps, o.staircase);
    return (o.initial_learning_rate * Pow(o.decay_rate, done)).output();
  };
}

LearningRateSchedule InverseTimeDecay(const InverseTimeDecayOptions& o) {
  return [o](const Scope& parent, Output step) {
    const Scope scope = parent.SubScope("inverse_time_decay");
    if (!CheckNumbers(scope, "InverseTimeDecay",
                      {{"initial_learning_rate", o.initial_learning_rate, kNotNegative},
                       {"decay_steps", o.decay_steps, kAtLeastOne},
                       {"decay_rate", o.decay_rate, kNotNegative}})) {
      return Output();
    }
    const Term done = Progress(Term(scope, step), o.decay_steps, o.staircase);
    return (o.initial_learning_rate / (1 + o.decay_rate * done)).output();
  };
}

LearningRateSchedule PolynomialDecay(const PolynomialDecayOptions& o) {
  return [o](const Scope& parent, Output step) {
    const Scope scope = parent.SubScope("polynomial_decay");
    if (!CheckNumbers(scope, "PolynomialDecay",
                      {{"initial_learning_rate", o.initial_learning_rate, kNotNegative},
                       {"decay_steps", o.decay_steps, kAtLeastOne},
                       {"end_learning_rate", o.end_learning_rate, kNotNegative},
                       {"power", o.power, kNotNegative}})) {
      return Output();
    }
    const double steps = static_cast<double>(o.decay_steps);
    const Term done = Term(scope, step) / steps;
    Term part = Min(done, done.Number(1));
    if (o.cycle) {  // the first decay also has step 0
      const Term decays = done.With(ops::Ceil(scope, done));
      part = done / Max(decays, decays.Number(1));
    }
    return ((o.initial_learning_rate - o.end_learning_rate) * Pow(1 - part, o.power) +
            o.end_learning_rate)
        .output();
  };
}

LearningRateSchedule CosineDecayRestarts(const CosineDecayRestartsOptions& o) {
  return [o](const Scope& parent, Output step) {
    const Scope scope = parent.SubScope("cosine_decay_restarts");
    if (!CheckNumbers(scope, "CosineDecayRestarts",
                      {{"initial_learning_rate", o.initial_learning_rate, kNotNegative},
                       {"first_decay_steps", o.first_decay_steps, kAtLeastOne},
                       {"t_mul", o.t_mul, kAtLeastOne},
                       {"m_mul", o.m_mul, kNotNegative},
                       {"alpha", o.alpha, kNotNegative}})) {
      return Output();
    }
    const Term done = Term(scope, step) / static_cast<double>(o.first_decay_steps);
    Term restarts = Floor(done), part = done - restarts;
    if (o.t_mul != 1) {
      // The decays before restart i take (t_mul^i - 1) / (t_mul - 1) times the first one.
      const Term power = 1 + done * (o.t_mul - 1);
      restarts = Floor(power.With(ops::Log(scope, power)) / std::log(o.t_mul));
      const Term length = Pow(o.t_mul, restarts);
      part = (done - (length - 1) / (o.t_mul - 1)) / length;
    }
    const Term cosine = part.With(ops::Cos(scope, part * kPi));
    const Term decayed = 0.5 * Pow(o.m_mul, restarts) * (1 + cosine);
    return (o.initial_learning_rate * ((1 - o.alpha) * decayed + o.alpha)).output();
  };
}

}  // namespace mirrorflow::schedules
