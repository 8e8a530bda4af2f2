// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/schedules.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/binary.h"
#include "ops/cast.h"
#include "ops/select.h"
#include "ops/unary.h"
#include "ops/variable.h"
#include "train/numeric_options.h"
#include "train/optimizers/term.h"
#include "train/optimizers/variable_update.h"

namespace mirrorflow::schedules {
namespace {

// Returns the schedule `rate`, with its nodes in a scope named `scope_name`. The schedule fails the
// graph if one of `numbers`, the options of `name`, is out of range.
LearningRateSchedule Checked(const char* scope_name, const char* name,
                             std::vector<NumericOption> numbers,
                             std::function<Output(const Term& step)> rate) {
  return [=](const Scope& parent, Output step) {
    const Scope scope = parent.SubScope(scope_name);
    return CheckNumbers(scope, name, numbers) ? rate(Term(scope, step)) : Output();
  };
}

Term Floor(const Term& x) { return x.With(ops::Floor(x.scope(), x)); }
Term Cos(const Term& x) { return x.With(ops::Cos(x.scope(), x)); }

// Returns `below` while step < limit, and `from` afterwards.
Output Before(const Term& step, double limit, const Term& below, const Term& from) {
  const Scope& s = step.scope();
  return ops::SelectV2(s, ops::Less(s, step, step.Number(limit)), below, from);
}

// Interpolates from `first` to `last` along half a cosine as `progress` goes from 0 to 1.
Term CosineTo(double first, double last, const Term& progress) {
  return (first + last) / 2 + (first - last) / 2 * Cos(progress * std::numbers::pi);
}

// Returns the progress of the decay, in units of `decay_steps`. With `staircase`, rounds it down.
Term Progress(const Term& step, int64_t decay_steps, bool staircase) {
  const Term done = step / static_cast<double>(decay_steps);
  return staircase ? Floor(done) : done;
}

}  // namespace

LearningRateSchedule OneCycle(const OneCycleOptions& o) {
  auto rate = [o](const Term& step) {
    // The steps at which the rate reaches its maximum and its final value. Each phase takes at
    // least one step.
    const double total = static_cast<double>(o.total_steps);
    const double top = std::max(1.0, o.warmup_fraction * total - 1);
    const double end = std::max(top + 1, total - 1);
    const double first = o.max_learning_rate / o.div_factor;
    const double last = first / o.final_div_factor;
    const Term up = step * (1 / top);
    const Term down = Min(step.Number(1), (step - top) * (1 / (end - top)));
    return Before(step, top, CosineTo(first, o.max_learning_rate, up),
                  CosineTo(o.max_learning_rate, last, down));
  };
  return Checked("one_cycle", "OneCycle",
                 {{"max_learning_rate", o.max_learning_rate, kNotNegative},
                  {"total_steps", o.total_steps, kAtLeastOne},
                  {"warmup_fraction", o.warmup_fraction, kFraction},
                  {"div_factor", o.div_factor, kPositive},
                  {"final_div_factor", o.final_div_factor, kPositive}},
                 rate);
}

LearningRateSchedule PiecewiseConstant(const PiecewiseConstantOptions& o) {
  std::vector<NumericOption> numbers;
  for (const int64_t boundary : o.boundaries) {
    numbers.push_back({"boundaries", boundary, kNotNegative});
  }
  for (const double value : o.values) numbers.push_back({"values", value, kNotNegative});
  auto rate = [o](const Term& step) -> Output {
    const Scope& scope = step.scope();
    if (o.values.size() != o.boundaries.size() + 1 ||
        !std::is_sorted(o.boundaries.begin(), o.boundaries.end())) {
      scope.Fail(absl::InvalidArgumentError(
          absl::StrCat("PiecewiseConstant: expected ascending boundaries and one more value than "
                       "boundaries, got boundaries [",
                       absl::StrJoin(o.boundaries, ", "), "] and ", o.values.size(), " values")));
      return Output();
    }
    Term rate = step.Number(o.values.back());
    for (size_t i = o.boundaries.size(); i-- > 0;) {
      const Term boundary = step.Number(static_cast<double>(o.boundaries[i]));
      rate = step.With(ops::SelectV2(scope, ops::LessEqual(scope, step, boundary),
                                     step.Number(o.values[i]), rate));
    }
    return rate;
  };
  return Checked("piecewise_constant", "PiecewiseConstant", std::move(numbers), rate);
}

LearningRateSchedule CosineDecay(const CosineDecayOptions& o) {
  auto rate = [o](const Term& step) {
    const Term done = Min(step.Number(1), step * (1 / static_cast<double>(o.decay_steps)));
    return CosineTo(o.initial_learning_rate, o.initial_learning_rate * o.alpha, done);
  };
  return Checked("cosine_decay", "CosineDecay",
                 {{"initial_learning_rate", o.initial_learning_rate, kNotNegative},
                  {"decay_steps", o.decay_steps, kAtLeastOne},
                  {"alpha", o.alpha, kNotNegative}},
                 rate);
}

LearningRateSchedule WarmUp(const WarmUpOptions& o) {
  auto rate = [o](const Term& step) -> Output {
    auto after = [&](const Term& since) {
      return o.after.schedule() ? since.With(o.after.schedule()(since.scope(), since))
                                : since.Number(o.after.value());
    };
    if (o.steps == 0) return after(step);
    const double steps = static_cast<double>(o.steps);
    const Term rise = after(step.Number(0)) - o.initial_learning_rate;
    const Term rising = o.initial_learning_rate + rise * (step * (1 / steps));
    return Before(step, steps, rising, after(step - steps));
  };
  return Checked("warm_up", "WarmUp",
                 {{"steps", o.steps, kNotNegative},
                  {"initial_learning_rate", o.initial_learning_rate, kNotNegative},
                  {"after", o.after.value(), kNotNegative}},
                 rate);
}

LearningRateSchedule ExponentialDecay(const ExponentialDecayOptions& o) {
  auto rate = [o](const Term& step) {
    const Term done = Progress(step, o.decay_steps, o.staircase);
    return o.initial_learning_rate * Pow(o.decay_rate, done);
  };
  return Checked("exponential_decay", "ExponentialDecay",
                 {{"initial_learning_rate", o.initial_learning_rate, kNotNegative},
                  {"decay_steps", o.decay_steps, kAtLeastOne},
                  {"decay_rate", o.decay_rate, kNotNegative}},
                 rate);
}

LearningRateSchedule InverseTimeDecay(const InverseTimeDecayOptions& o) {
  auto rate = [o](const Term& step) {
    const Term done = Progress(step, o.decay_steps, o.staircase);
    return o.initial_learning_rate / (1 + o.decay_rate * done);
  };
  return Checked("inverse_time_decay", "InverseTimeDecay",
                 {{"initial_learning_rate", o.initial_learning_rate, kNotNegative},
                  {"decay_steps", o.decay_steps, kAtLeastOne},
                  {"decay_rate", o.decay_rate, kNotNegative}},
                 rate);
}

LearningRateSchedule PolynomialDecay(const PolynomialDecayOptions& o) {
  auto rate = [o](const Term& step) {
    const Term done = step / static_cast<double>(o.decay_steps);
    Term part = Min(done, done.Number(1));
    if (o.cycle) {  // step 0 also belongs to the first decay
      const Term decays = done.With(ops::Ceil(done.scope(), done));
      part = done / Max(decays, decays.Number(1));
    }
    const double range = o.initial_learning_rate - o.end_learning_rate;
    return range * Pow(1 - part, o.power) + o.end_learning_rate;
  };
  return Checked("polynomial_decay", "PolynomialDecay",
                 {{"initial_learning_rate", o.initial_learning_rate, kNotNegative},
                  {"decay_steps", o.decay_steps, kAtLeastOne},
                  {"end_learning_rate", o.end_learning_rate, kNotNegative},
                  {"power", o.power, kNotNegative}},
                 rate);
}

LearningRateSchedule CosineDecayRestarts(const CosineDecayRestartsOptions& o) {
  auto rate = [o](const Term& step) {
    const Term done = step / static_cast<double>(o.first_decay_steps);
    Term restarts = Floor(done), part = done - restarts;
    if (o.t_mul != 1) {
      // Before restart i, the decays take (t_mul^i - 1) / (t_mul - 1) times as long as the first
      // one.
      const Term power = 1 + done * (o.t_mul - 1);
      const Term log = power.With(ops::Log(power.scope(), power));
      restarts = Floor(log / std::log(o.t_mul));
      const Term length = Pow(o.t_mul, restarts);
      part = (done - (length - 1) / (o.t_mul - 1)) / length;
    }
    const Term decayed = 0.5 * Pow(o.m_mul, restarts) * (1 + Cos(part * std::numbers::pi));
    return o.initial_learning_rate * ((1 - o.alpha) * decayed + o.alpha);
  };
  return Checked("cosine_decay_restarts", "CosineDecayRestarts",
                 {{"initial_learning_rate", o.initial_learning_rate, kNotNegative},
                  {"first_decay_steps", o.first_decay_steps, kAtLeastOne},
                  {"t_mul", o.t_mul, kAtLeastOne},
                  {"m_mul", o.m_mul, kNotNegative},
                  {"alpha", o.alpha, kNotNegative}},
                 rate);
}

LearningRateSchedule Adjustable(double initial, const std::string& variable) {
  return [=](const Scope& scope, Output step) {
    if (!CheckNumbers(scope, "Adjustable", {{"initial", initial, kNotNegative}})) return Output();
    const Scope root(&scope.graph());
    // If the updates have several dtypes, create the variable only once.
    Node* const made = scope.graph().FindNode(variable);
    const Output value =
        made != nullptr
            ? ops::ReadVariableOp(scope, made->output(0))
            : CreateOptimizerState(root, variable, {}, initializers::Constant(initial), DT_FLOAT)
                  .value;
    return step.dtype() == DT_FLOAT ? value : ops::Cast(scope, value, step.dtype());
  };
}

}  // namespace mirrorflow::schedules
