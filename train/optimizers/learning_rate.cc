// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/learning_rate.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/binary.h"
#include "ops/constant.h"
#include "ops/select.h"
#include "ops/unary.h"
#include "train/numeric_options.h"

namespace mirrorflow::schedules {
namespace {

constexpr double kPi = 3.14159265358979323846;

// Goes from `first` to `last` along half a cosine as `progress` goes from 0 to 1.
Output CosineTo(const Scope& scope, double first, double last, Output progress) {
  auto scalar = [&](double v) { return ops::ScalarConst(scope, progress.dtype(), v); };
  const Output cosine = ops::Cos(scope, ops::Mul(scope, progress, scalar(kPi)));
  return ops::Add(scope, scalar((first + last) / 2),
                  ops::Mul(scope, scalar((first - last) / 2), cosine));
}

}  // namespace

LearningRateSchedule OneCycle(const OneCycleOptions& o) {
  return [o](const Scope& parent, Output step) {
    const Scope scope = parent.SubScope("one_cycle");
    if (!CheckNumbers(scope, "OneCycle",
                      {{"max_learning_rate", o.max_learning_rate, kNotNegative},
                       {"total_steps", o.total_steps, kAtLeastOne},
                       {"warmup_fraction", o.warmup_fraction, kFraction},
                       {"div_factor", o.div_factor, kPositive},
                       {"final_div_factor", o.final_div_factor, kPositive}})) {
      return Output();
    }
    // The steps of the highest and of the last rate; each phase takes at least one step.
    const double total = static_cast<double>(o.total_steps);
    const double top = std::max(1.0, o.warmup_fraction * total - 1);
    const double end = std::max(top + 1, total - 1);
    const double first = o.max_learning_rate / o.div_factor;
    const double last = first / o.final_div_factor;
    auto scalar = [&](double v) { return ops::ScalarConst(scope, step.dtype(), v); };
    const Output up = ops::Mul(scope, step, scalar(1 / top));
    const Output down =
        ops::Minimum(scope, scalar(1),
                     ops::Mul(scope, ops::Sub(scope, step, scalar(top)), scalar(1 / (end - top))));
    return ops::SelectV2(scope, ops::Less(scope, step, scalar(top)),
                         CosineTo(scope, first, o.max_learning_rate, up),
                         CosineTo(scope, o.max_learning_rate, last, down));
  };
}

LearningRateSchedule PiecewiseConstant(const PiecewiseConstantOptions& o) {
  return [o](const Scope& parent, Output step) {
    const Scope scope = parent.SubScope("piecewise_constant");
    if (o.values.size() != o.boundaries.size() + 1 ||
        !std::is_sorted(o.boundaries.begin(), o.boundaries.end())) {
      scope.Fail(absl::InvalidArgumentError(
          absl::StrCat("PiecewiseConstant: expected ascending boundaries and one more value, got [",
                       absl::StrJoin(o.boundaries, ", "), "] and ", o.values.size(), " values")));
      return Output();
    }
    for (const int64_t boundary : o.boundaries) {
      if (!CheckNumbers(scope, "PiecewiseConstant", {{"boundaries", boundary, kNotNegative}})) {
        return Output();
      }
    }
    for (const double value : o.values) {
      if (!CheckNumbers(scope, "PiecewiseConstant", {{"values", value, kNotNegative}})) {
        return Output();
      }
    }
    auto scalar = [&](double v) { return ops::ScalarConst(scope, step.dtype(), v); };
    Output rate = scalar(o.values.back());
    for (size_t i = o.boundaries.size(); i-- > 0;) {
      const Output before =
          ops::LessEqual(scope, step, scalar(static_cast<double>(o.boundaries[i])));
      rate = ops::SelectV2(scope, before, scalar(o.values[i]), rate);
    }
    return rate;
  };
}

LearningRateSchedule CosineDecay(const CosineDecayOptions& o) {
  return [o](const Scope& parent, Output step) {
    const Scope scope = parent.SubScope("cosine_decay");
    if (!CheckNumbers(scope, "CosineDecay",
                      {{"initial_learning_rate", o.initial_learning_rate, kNotNegative},
                       {"decay_steps", o.decay_steps, kAtLeastOne},
                       {"alpha", o.alpha, kNotNegative}})) {
      return Output();
    }
    auto scalar = [&](double v) { return ops::ScalarConst(scope, step.dtype(), v); };
    const Output progress = ops::Minimum(
        scope, scalar(1), ops::Mul(scope, step, scalar(1 / static_cast<double>(o.decay_steps))));
    return CosineTo(scope, o.initial_learning_rate, o.initial_learning_rate * o.alpha, progress);
  };
}

LearningRateSchedule WarmUp(const WarmUpOptions& o) {
  return [o](const Scope& parent, Output step) {
    const Scope scope = parent.SubScope("warm_up");
    if (!CheckNumbers(scope, "WarmUp",
                      {{"steps", o.steps, kNotNegative},
                       {"initial_learning_rate", o.initial_learning_rate, kNotNegative},
                       {"after", o.after.value(), kNotNegative}})) {
      return Output();
    }
    auto scalar = [&](double v) { return ops::ScalarConst(scope, step.dtype(), v); };
    auto after = [&](Output since) {
      return o.after.schedule() ? o.after.schedule()(scope, since) : scalar(o.after.value());
    };
    const double steps = static_cast<double>(o.steps);
    if (o.steps == 0) return after(step);
    const Output rise = ops::Sub(scope, after(scalar(0)), scalar(o.initial_learning_rate));
    const Output done = ops::Mul(scope, step, scalar(1 / steps));
    const Output rising =
        ops::AddV2(scope, scalar(o.initial_learning_rate), ops::Mul(scope, rise, done));
    return ops::SelectV2(scope, ops::Less(scope, step, scalar(steps)), rising,
                         after(ops::Sub(scope, step, scalar(steps))));
  };
}

}  // namespace mirrorflow::schedules
