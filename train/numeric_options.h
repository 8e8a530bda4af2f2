// SPDX-License-Identifier: Apache-2.0
//
// Checks the numeric arguments and options that users pass to train/.
//
//   return CheckNumbers("Adam", {{"beta1", o.beta1, kBelowOne},
//                                {"epsilon", o.epsilon, kPositive}});
#ifndef MIRRORFLOW_TRAIN_NUMERIC_OPTIONS_H_
#define MIRRORFLOW_TRAIN_NUMERIC_OPTIONS_H_

#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace mirrorflow {

// An interval of finite numbers. An infinite bound means no limit.
struct NumberRange {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool without_min = false;  // whether `min` itself is out of range
  bool without_max = false;  // whether `max` itself is out of range
};

inline constexpr NumberRange kAnyNumber = {};
inline constexpr NumberRange kNotNegative = {.min = 0};
inline constexpr NumberRange kPositive = {.min = 0, .without_min = true};
inline constexpr NumberRange kNotPositive = {.max = 0};
inline constexpr NumberRange kAtLeastOne = {.min = 1};
inline constexpr NumberRange kFraction = {.min = 0, .max = 1};
inline constexpr NumberRange kInsideFraction = {
    .min = 0, .max = 1, .without_min = true, .without_max = true};
inline constexpr NumberRange kBelowOne = {.min = 0, .max = 1, .without_max = true};

struct NumericOption {
  template <typename Number>
  NumericOption(absl::string_view name, Number value, const NumberRange& range)
      : name(name), value(static_cast<double>(value)), range(range) {}

  std::string name;
  double value;
  NumberRange range;
};

// Returns InvalidArgument, naming `owner` and the option, if an option is NaN, infinite or out of
// range.
absl::Status CheckNumbers(absl::string_view owner, absl::Span<const NumericOption> options);

// Returns whether the scope is OK and all options are in range. If not, fails the scope.
bool CheckNumbers(const Scope& scope, absl::string_view owner,
                  absl::Span<const NumericOption> options);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_NUMERIC_OPTIONS_H_
