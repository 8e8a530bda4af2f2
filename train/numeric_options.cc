// SPDX-License-Identifier: Apache-2.0
#include "train/numeric_options.h"

#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mirrorflow {
namespace {

bool Contains(const NumberRange& range, double value) {
  const bool above = range.without_least ? value > range.least : value >= range.least;
  const bool below = range.without_most ? value < range.most : value <= range.most;
  return std::isfinite(value) && above && below;
}

std::string ToString(const NumberRange& range) {
  const bool has_least = std::isfinite(range.least), has_most = std::isfinite(range.most);
  if (!has_least && !has_most) return "a finite number";
  if (has_least && has_most && !range.without_least && !range.without_most) {
    return absl::StrCat(range.least, " to ", range.most);
  }
  std::string text;
  if (has_least && range.without_least) text = absl::StrCat("above ", range.least);
  if (has_least && !range.without_least) text = absl::StrCat(range.least, " or more");
  if (has_least && has_most) text += " and ";
  if (has_most && range.without_most) absl::StrAppend(&text, "below ", range.most);
  if (has_most && !range.without_most) absl::StrAppend(&text, range.most, " or less");
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
  absl::Status status = CheckNumbers(owner, options);
  if (status.ok()) return true;
  scope.Fail(std::move(status));
  return false;
}

}  // namespace mirrorflow
