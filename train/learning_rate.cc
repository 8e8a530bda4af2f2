// SPDX-License-Identifier: Apache-2.0
#include "train/learning_rate.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ops/binary.h"
#include "ops/constant.h"
#include "ops/select.h"
#include "ops/unary.h"

namespace mirrorflow::schedules {
namespace {

constexpr double kPi = 3.14159265358979323846;

absl::Status Check(const OneCycleOptions& o) {
  if (o.max_learning_rate > 0 && o.div_factor > 0 && o.final_div_factor > 0 && o.total_steps > 0 &&
      o.warmup_fraction >= 0 && o.warmup_fraction <= 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "OneCycle: expected max_learning_rate, div_factor, final_div_factor and total_steps > 0 and "
      "0 <= warmup_fraction <= 1, got ",
      o.max_learning_rate, ", ", o.div_factor, ", ", o.final_div_factor, ", ", o.total_steps,
      " and ", o.warmup_fraction));
}

// From `first` to `last` by half a cosine while `progress` goes from 0 to 1.
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
    if (absl::Status status = Check(o); !status.ok()) {
      scope.Fail(status);
      return Output();
    }
    // The steps of the highest and of the last rate; each way takes at least one step.
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

}  // namespace mirrorflow::schedules
