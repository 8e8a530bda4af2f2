// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/minimize_options.h"

#include "absl/strings/str_cat.h"

namespace mirrorflow {
namespace {

absl::Status OutOfRange(absl::string_view option, absl::string_view expected, double got) {
  return absl::InvalidArgumentError(
      absl::StrCat("minimize: ", option, ": expected ", expected, ", got ", got));
}

}  // namespace

absl::Status CheckMinimizeOptions(const MinimizeOptions& o) {
  // Written so that NaN is out of range.
  if (!(o.clipvalue >= 0)) return OutOfRange("clipvalue", "0 or more", o.clipvalue);
  if (!(o.clipnorm >= 0)) return OutOfRange("clipnorm", "0 or more", o.clipnorm);
  if (!(o.global_clipnorm >= 0)) {
    return OutOfRange("global_clipnorm", "0 or more", o.global_clipnorm);
  }
  if ((o.clipvalue > 0) + (o.clipnorm > 0) + (o.global_clipnorm > 0) > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("minimize: expected only one of clipvalue, clipnorm and global_clipnorm, got ",
                     o.clipvalue, ", ", o.clipnorm, " and ", o.global_clipnorm));
  }
  if (o.weight_decay.has_value() && !(*o.weight_decay >= 0)) {
    return OutOfRange("weight_decay", "0 or more", *o.weight_decay);
  }
  for (const LearningRateMultiplier& m : o.learning_rate_multipliers) {
    if (!(m.multiplier >= 0)) {
      return OutOfRange("learning_rate_multipliers", "0 or more", m.multiplier);
    }
  }
  if (!(o.ema_momentum >= 0 && o.ema_momentum <= 1)) {
    return OutOfRange("ema_momentum", "0 to 1", o.ema_momentum);
  }
  if (o.ema_overwrite_frequency < 0) {
    return OutOfRange("ema_overwrite_frequency", "0 or more",
                      static_cast<double>(o.ema_overwrite_frequency));
  }
  if (o.ema_overwrite_frequency > 0 && !o.use_ema) {
    return absl::InvalidArgumentError(
        "minimize: ema_overwrite_frequency: expected use_ema with it, got use_ema = false");
  }
  if (o.accumulate_steps < 1) {
    return OutOfRange("accumulate_steps", "1 or more", static_cast<double>(o.accumulate_steps));
  }
  if (o.accumulate_steps > 1 && o.reduce != nullptr) {
    return absl::InvalidArgumentError(
        "minimize: accumulate_steps: expected no `reduce` with it, which would reduce the "
        "gradients in every step");
  }
  return o.loss_scale.has_value() ? CheckLossScaleOptions(*o.loss_scale) : absl::OkStatus();
}

}  // namespace mirrorflow
