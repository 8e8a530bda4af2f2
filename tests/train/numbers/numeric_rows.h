// SPDX-License-Identifier: Apache-2.0
//
// The rows of numeric_arguments_test. Each is a number that a user passes, with illegal and legal
// values.
#ifndef MIRRORFLOW_TESTS_TRAIN_NUMBERS_NUMERIC_ROWS_H_
#define MIRRORFLOW_TESTS_TRAIN_NUMBERS_NUMERIC_ROWS_H_

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "framework/graph/scope.h"

namespace mirrorflow {

struct NumericRow {
  std::string name;  // Struct.field or Function.parameter
  std::vector<double> bad, good;
  std::function<absl::Status(double)> status_with;
};

// Return the rows for layers, losses, metrics and initializers; for datasets and files; and for
// Fit, its callbacks, checkpoints, summaries and strategies.
std::vector<NumericRow> GraphRows();
std::vector<NumericRow> DataRows();
std::vector<NumericRow> TrainingRows();

namespace numeric_rows {

using Numbers = std::vector<double>;

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Makes a row for a real number; NaN and infinities are also errors.
inline NumericRow Real(std::string name, Numbers bad, Numbers good,
                       std::function<absl::Status(double)> status_with) {
  bad.insert(bad.end(), {kNan, kInf, -kInf});
  return {std::move(name), std::move(bad), std::move(good), std::move(status_with)};
}

inline NumericRow Integer(std::string name, Numbers bad, Numbers good,
                          std::function<absl::Status(int64_t)> status_with) {
  return {std::move(name), std::move(bad), std::move(good),
          [=](double v) { return status_with(static_cast<int64_t>(v)); }};
}

}  // namespace numeric_rows
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_TRAIN_NUMBERS_NUMERIC_ROWS_H_
