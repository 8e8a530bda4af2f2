// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/minimize_options.h"

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "train/numeric_options.h"

namespace mirrorflow {
namespace {

constexpr char kMinimize[] = "minimize";

absl::Status CheckRanges(const MinimizeOptions& o) {
  MF_RETURN_IF_ERROR(
      CheckNumbers(kMinimize, {{"clipvalue", o.clipvalue, kNotNegative},
                               {"clipnorm", o.clipnorm, kNotNegative},
                               {"global_clipnorm", o.global_clipnorm, kNotNegative},
                               {"weight_decay", o.weight_decay.value_or(0), kNotNegative},
                               {"ema_momentum", o.ema_momentum, kFraction},
                               {"ema_overwrite_frequency", o.ema_overwrite_frequency, kNotNegative},
                               {"accumulate_steps", o.accumulate_steps, kAtLeastOne}}));
  for (const LearningRateMultiplier& m : o.learning_rate_multipliers) {
    MF_RETURN_IF_ERROR(
        CheckNumbers(kMinimize, {{"learning_rate_multipliers", m.multiplier, kNotNegative}}));
  }
  return o.loss_scale.has_value() ? CheckLossScaleOptions(*o.loss_scale) : absl::OkStatus();
}

absl::Status CheckOwned(const Graph& graph, const MinimizeOptions& o) {
  for (const Output& variable : o.variables) {
    MF_RETURN_IF_ERROR(Annotate(graph.CheckOwns(variable), "minimize: variables"));
  }
  MF_RETURN_IF_ERROR(
      o.exclude_from_weight_decay.CheckOwned(graph, "minimize: exclude_from_weight_decay"));
  for (const LearningRateMultiplier& m : o.learning_rate_multipliers) {
    MF_RETURN_IF_ERROR(m.variables.CheckOwned(graph, "minimize: learning_rate_multipliers"));
  }
  if (!o.accumulate_weight.valid()) return absl::OkStatus();
  return Annotate(graph.CheckOwns(o.accumulate_weight), "minimize: accumulate_weight");
}

}  // namespace

absl::Status CheckMinimizeOptions(const Graph& graph, const MinimizeOptions& o) {
  MF_RETURN_IF_ERROR(CheckRanges(o));
  MF_RETURN_IF_ERROR(CheckOwned(graph, o));
  if ((o.clipvalue > 0) + (o.clipnorm > 0) + (o.global_clipnorm > 0) > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("minimize: several clipping options are set; expected at most one of "
                     "clipvalue, clipnorm and global_clipnorm, got ",
                     o.clipvalue, ", ", o.clipnorm, " and ", o.global_clipnorm));
  }
  if (o.ema_overwrite_frequency > 0 && !o.use_ema) {
    return absl::InvalidArgumentError(
        "minimize: ema_overwrite_frequency requires a moving average; set use_ema = true");
  }
  if (o.accumulate_steps > 1 && o.reduce != nullptr) {
    return absl::InvalidArgumentError(
        "minimize: accumulate_steps cannot be combined with `reduce`, which would reduce the "
        "gradients in every step; unset one of them");
  }
  return absl::OkStatus();
}

}  // namespace mirrorflow
