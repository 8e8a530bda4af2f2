// SPDX-License-Identifier: Apache-2.0
#include "train/numeric_options.h"

#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mirrorflow {
namespace {

bool Contains(const NumberRange& range, double value) {
  const bool above = range.without_min ? value > range.min : value >= range.min;
  const bool below = range.without_max ? value < range.max : value <= range.max;
  return std::isfinite(value) && above && below;
}

std::string ToString(const NumberRange& range) {
  const bool has_min = std::isfinite(range.min), has_max = std::isfinite(range.max);
  if (!has_min && !has_max) return "a finite number";
  if (has_min && has_max && !range.without_min && !range.without_max) {
    return absl::StrCat(range.min, " to ", range.max);
  }
  std::string text;
  if (has_min && range.without_min) text = absl::StrCat("above ", range.min);
  if (has_min && !range.without_min) text = absl::StrCat(range.min, " or more");
  if (has_min && has_max) text += " and ";
  if (has_max && range.without_max) absl::StrAppend(&text, "below ", range.max);
  if (has_max && !range.without_max) absl::StrAppend(&text, range.max, " or less");
  return text;
}

}  // namespace

absl::Status CheckNumbers(absl::string_view owner, absl::Span<const NumericOption> options) {
  for (const NumericOption& option : options) {
    if (Contains(option.range, option.value)) continue;
    // "1 or more" seems to allow infinity, so the message asks for a finite number instead.
    const NumberRange& expected = std::isinf(option.value) ? kAnyNumber : option.range;
    return absl::InvalidArgumentError(absl::StrCat(owner, ": ", option.name, ": expected ",
                                                   ToString(expected), ", got ", option.value));
  }
  return absl::OkStatus();
}

bool CheckNumbers(const Scope& scope, absl::string_view owner,
                  absl::Span<const NumericOption> options) {
  absl::Status status = scope.status();
  if (status.ok()) status = CheckNumbers(owner, options);
  if (status.ok()) return true;
  scope.Fail(std::move(status));
  return false;
}

}  // namespace mirrorflow
