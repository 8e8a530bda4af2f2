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
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool without_least = false;  // excludes `least` itself
  bool without_most = false;   // excludes `most` itself
};

inline constexpr NumberRange kAnyNumber = {};
inline constexpr NumberRange kNotNegative = {.least = 0};
inline constexpr NumberRange kPositive = {.least = 0, .without_least = true};
inline constexpr NumberRange kNotPositive = {.most = 0};
inline constexpr NumberRange kAtLeastOne = {.least = 1};
inline constexpr NumberRange kFraction = {.least = 0, .most = 1};
inline constexpr NumberRange kInsideFraction = {
    .least = 0, .most = 1, .without_least = true, .without_most = true};
inline constexpr NumberRange kBelowOne = {.least = 0, .most = 1, .without_most = true};

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

// Returns whether all options are in range. If not, fails the scope with the error.
bool CheckNumbers(const Scope& scope, absl::string_view owner,
                  absl::Span<const NumericOption> options);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_NUMERIC_OPTIONS_H_
