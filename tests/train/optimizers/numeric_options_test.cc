// SPDX-License-Identifier: Apache-2.0
//
// Tests every numeric option of optimizers, schedules, clipping, loss scaling, moving averages and
// regularizers: values out of range, NaN and infinities are errors that name the option.
#include "train/numeric_options.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/is_error.h"
#include "tests/train/numbers/header_numbers.h"
#include "train/layers/layers.h"
#include "train/optimizers/optimizers.h"
#include "train/regularizers.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

template <typename Number>
void Set(Number& option, double value) {
  if constexpr (std::is_integral_v<Number>) {
    option = static_cast<Number>(value);
  } else {
    option = value;
  }
}

// Returns the status of a graph in which `optimizer` minimises the square of a matrix.
absl::Status StatusOf(const Optimizer& optimizer, const MinimizeOptions& options = {}) {
  Graph graph;
  const Scope root(&graph);
  const Variable v = CreateVariable(root, "v", {2, 3}, initializers::Ones());
  optimizer.Minimize(root, ops::Sum(root, ops::Square(root, v.value)), options);
  return graph.status();
}

absl::Status StatusOf(const LearningRateSchedule& schedule) {
  return StatusOf(SGD({.learning_rate = schedule}));
}

absl::Status StatusOfPenalty(const Regularizer& regularizer) {
  Graph graph;
  const Scope root(&graph);
  regularizer(root, ops::Placeholder(root, DT_FLOAT, {3, 3}));
  return graph.status();
}

using Clip = std::vector<GradientAndVariable> (*)(const Scope&,
                                                  absl::Span<const GradientAndVariable>, double);
absl::Status StatusOf(Clip clip, double limit) {
  Graph graph;
  const Scope root(&graph);
  const Variable v = CreateVariable(root, "v", {2}, initializers::Ones());
  const std::vector<GradientAndVariable> gradients = {{v.value, v.handle}};
  clip(root, gradients, limit);
  return graph.status();
}

struct Row {
  std::string name;  // the option's name
  bool is_integer;
  std::vector<double> bad, good;
  std::function<absl::Status(double value)> status_with;
};
using Numbers = std::vector<double>;

// Makes a row for an optimizer's option.
#define RULE(Optimizer, option, bad, good)                                            \
  Row {                                                                               \
#option, std::is_integral_v<decltype(Optimizer::Options::option)>, Numbers bad,     \
        Numbers good, [](double value) {                                                \
          Optimizer::Options options;                                                   \
          Set(options.option, value);                                                   \
          return StatusOf(Optimizer(options));                                          \
        } \
  }
// Makes a row for an option of a function that returns a schedule, a hook or a regularizer. The
// arguments must make all other options valid.
#define OPTION(Function, Options, option, bad, good, ...)                             \
  Row {                                                                               \
#option, std::is_integral_v<decltype(Options::option)>, Numbers bad, Numbers good,  \
        [](double value) {                                                              \
          Options options = __VA_ARGS__;                                                \
          Set(options.option, value);                                                   \
          return StatusOf(Function(options));                                           \
        } \
  }
#define PENALTY(Function, Options, option, bad, good, ...)                            \
  Row {                                                                               \
#option, std::is_integral_v<decltype(Options::option)>, Numbers bad, Numbers good,  \
        [](double value) {                                                              \
          Options options = __VA_ARGS__;                                                \
          Set(options.option, value);                                                   \
          return StatusOfPenalty(Function(options));                                           \
        } \
  }
#define MINIMIZE(option, bad, good, ...)                                              \
  Row {                                                                               \
#option, std::is_integral_v<decltype(MinimizeOptions::option)>, Numbers bad,        \
        Numbers good, [](double value) {                                                \
          MinimizeOptions options = __VA_ARGS__;                                        \
          Set(options.option, value);                                                   \
          return StatusOf(SGD(), options);                                              \
        } \
  }

std::vector<Row> RuleRows() {
  std::vector<Row> rows = {
      RULE(Adadelta, learning_rate, ({-1}), ({0, 2})),
      RULE(Adadelta, rho, ({-0.1, 1.5}), ({0, 1})),
      RULE(Adadelta, epsilon, ({-1e-7}), ({0})),
      RULE(Adafactor, learning_rate, ({-1}), ({0})),
      RULE(Adafactor, beta2_decay, ({0.5}), ({0, -1})),
      RULE(Adafactor, epsilon1, ({-1}), ({0})),
      RULE(Adafactor, epsilon2, ({-1}), ({0})),
      RULE(Adafactor, clip_threshold, ({0, -1}), ({0.5})),
      RULE(Adagrad, learning_rate, ({-1}), ({0})),
      RULE(Adagrad, initial_accumulator_value, ({-0.1}), ({0})),
      RULE(Adagrad, epsilon, ({-1}), ({0})),
      RULE(Ftrl, learning_rate, ({-1}), ({0})),
      RULE(Ftrl, learning_rate_power, ({0.5}), ({0, -1})),
      RULE(Ftrl, initial_accumulator_value, ({-1}), ({0})),
      RULE(Ftrl, l1_regularization_strength, ({-1}), ({0})),
      RULE(Ftrl, l2_regularization_strength, ({-1}), ({0})),
      RULE(Ftrl, l2_shrinkage_regularization_strength, ({-1}), ({0})),
      RULE(Ftrl, beta, ({-1}), ({0})),
      RULE(Lion, learning_rate, ({-1}), ({0})),
      RULE(Lion, beta1, ({0, 1.1}), ({1})),
      RULE(Lion, beta2, ({-0.1, 1.1}), ({0, 1})),
      RULE(RMSProp, learning_rate, ({-1}), ({0})),
      RULE(RMSProp, rho, ({-0.1, 1.1}), ({0, 1})),
      RULE(RMSProp, momentum, ({-0.1, 1.1}), ({0, 1})),
      RULE(RMSProp, epsilon, ({-1}), ({0})),
      RULE(GradientDescent, learning_rate, ({-1}), ({0})),
      RULE(Momentum, learning_rate, ({-1}), ({0})),
      RULE(Momentum, momentum, ({-0.1, 1.1}), ({0, 1})),
      RULE(AdamW, weight_decay, ({-0.1}), ({0})),
      RULE(Muon, learning_rate, ({-1}), ({0})),
      RULE(Muon, adam_beta1, ({-0.1, 1}), ({0})),
      RULE(Muon, adam_beta2, ({-0.1, 1}), ({0})),
      RULE(Muon, adam_weight_decay, ({-1}), ({0})),
      RULE(Muon, epsilon, ({-1}), ({0})),
      RULE(Muon, weight_decay, ({-1}), ({0})),
      RULE(Muon, muon_a, ({std::nan("")}), ({-1})),
      RULE(Muon, muon_b, ({std::nan("")}), ({-1})),
      RULE(Muon, muon_c, ({std::nan("")}), ({-1})),
      RULE(Muon, adam_lr_ratio, ({-1}), ({0})),
      RULE(Muon, momentum, ({-0.1, 1.1}), ({0})),
      RULE(Muon, ns_steps, ({-1}), ({0})),
      RULE(Muon, rms_rate, ({-0.1}), ({0})),
  };
#define LIKE_ADAM(Optimizer)                                                                       \
  for (const Row& row :                                                                            \
       {RULE(Optimizer, learning_rate, ({-1}), ({0})), RULE(Optimizer, beta1, ({-0.1, 1}), ({0})), \
        RULE(Optimizer, beta2, ({-0.1, 1}), ({0})), RULE(Optimizer, epsilon, ({-1}), ({0}))}) {    \
    rows.push_back(row);                                                                           \
  }
  LIKE_ADAM(Adam)
  LIKE_ADAM(AdamW)
  LIKE_ADAM(Adamax)
  LIKE_ADAM(Nadam)
  LIKE_ADAM(Lamb)
  return rows;
}

absl::Status StatusOf(const GradientReducer& reduce) { return StatusOf(SGD(), {.reduce = reduce}); }

std::vector<Row> ScheduleRows() {
  using namespace schedules;  // NOLINT: each row names two of them
  return {
      OPTION(OneCycle, OneCycleOptions, max_learning_rate, ({-1}), ({0}), {.total_steps = 9}),
      OPTION(OneCycle, OneCycleOptions, total_steps, ({-1, 0}), ({1}), {}),
      OPTION(OneCycle, OneCycleOptions, warmup_fraction, ({-0.1, 1.1}), ({0, 1}),
             {.total_steps = 9}),
      OPTION(OneCycle, OneCycleOptions, div_factor, ({-1, 0}), ({0.5}), {.total_steps = 9}),
      OPTION(OneCycle, OneCycleOptions, final_div_factor, ({-1, 0}), ({0.5}), {.total_steps = 9}),
      OPTION(CosineDecay, CosineDecayOptions, initial_learning_rate, ({-1}), ({0}),
             {.decay_steps = 9}),
      OPTION(CosineDecay, CosineDecayOptions, decay_steps, ({-1, 0}), ({1}), {}),
      OPTION(CosineDecay, CosineDecayOptions, alpha, ({-0.1}), ({0, 1}), {.decay_steps = 9}),
      OPTION(WarmUp, WarmUpOptions, steps, ({-1}), ({0, 1}), {}),
      OPTION(WarmUp, WarmUpOptions, initial_learning_rate, ({-1}), ({0}), {}),
      OPTION(WarmUp, WarmUpOptions, after, ({-1}), ({0}), {}),
      OPTION(ExponentialDecay, ExponentialDecayOptions, initial_learning_rate, ({-1}), ({0}),
             {.decay_steps = 9}),
      OPTION(ExponentialDecay, ExponentialDecayOptions, decay_steps, ({-1, 0}), ({1}), {}),
      OPTION(ExponentialDecay, ExponentialDecayOptions, decay_rate, ({-1}), ({0, 2}),
             {.decay_steps = 9}),
      OPTION(InverseTimeDecay, InverseTimeDecayOptions, initial_learning_rate, ({-1}), ({0}),
             {.decay_steps = 9}),
      OPTION(InverseTimeDecay, InverseTimeDecayOptions, decay_steps, ({-1, 0}), ({1}), {}),
      OPTION(InverseTimeDecay, InverseTimeDecayOptions, decay_rate, ({-1}), ({0, 2}),
             {.decay_steps = 9}),
      OPTION(PolynomialDecay, PolynomialDecayOptions, initial_learning_rate, ({-1}), ({0}),
             {.decay_steps = 9}),
      OPTION(PolynomialDecay, PolynomialDecayOptions, decay_steps, ({-1, 0}), ({1}), {}),
      OPTION(PolynomialDecay, PolynomialDecayOptions, end_learning_rate, ({-1}), ({0}),
             {.decay_steps = 9}),
      OPTION(PolynomialDecay, PolynomialDecayOptions, power, ({-1}), ({0, 2}), {.decay_steps = 9}),
      OPTION(CosineDecayRestarts, CosineDecayRestartsOptions, initial_learning_rate, ({-1}), ({0}),
             {.first_decay_steps = 9}),
      OPTION(CosineDecayRestarts, CosineDecayRestartsOptions, first_decay_steps, ({-1, 0}), ({1}),
             {}),
      OPTION(CosineDecayRestarts, CosineDecayRestartsOptions, t_mul, ({0.5}), ({1}),
             {.first_decay_steps = 9}),
      OPTION(CosineDecayRestarts, CosineDecayRestartsOptions, m_mul, ({-1}), ({0}),
             {.first_decay_steps = 9}),
      OPTION(CosineDecayRestarts, CosineDecayRestartsOptions, alpha, ({-1}), ({0}),
             {.first_decay_steps = 9}),
      {"initial", false, {-1}, {0}, [](double v) { return StatusOf(Adjustable(v)); }},
      {"boundaries",
       true,
       {-1},
       {0, 3},
       [](double v) {
         return StatusOf(
             PiecewiseConstant({.boundaries = {static_cast<int64_t>(v)}, .values = {1, 1}}));
       }},
      {"values",
       false,
       {-1},
       {0},
       [](double v) {
         return StatusOf(PiecewiseConstant({.boundaries = {3}, .values = {1, v}}));
       }},
  };
}

std::vector<Row> OtherRows() {
  return {
      MINIMIZE(clipvalue, ({-1}), ({0, 1}), {}),
      MINIMIZE(clipnorm, ({-1}), ({0, 1}), {}),
      MINIMIZE(global_clipnorm, ({-1}), ({0, 1}), {}),
      MINIMIZE(weight_decay, ({-1}), ({0}), {}),
      MINIMIZE(ema_momentum, ({-0.1, 1.1}), ({0, 1}), {.use_ema = true}),
      MINIMIZE(ema_overwrite_frequency, ({-1}), ({0, 3}), {.use_ema = true}),
      MINIMIZE(accumulate_steps, ({-1, 0}), ({1, 2}), {}),
      {"learning_rate_multipliers",
       false,
       {-1},
       {0, 2},
       [](double v) {
         return StatusOf(SGD(), {.learning_rate_multipliers = {{{}, v}}});
       }},
      {"initial_scale",
       false,
       {-1, 0},
       {1},
       [](double v) {
         return StatusOf(SGD(), {.loss_scale = LossScaleOptions{v, 10}});
       }},
      {"dynamic_growth_steps",
       true,
       {-1, 0},
       {1},
       [](double v) {
         return StatusOf(SGD(), {.loss_scale = LossScaleOptions{1, static_cast<int64_t>(v)}});
       }},
      {"clipvalue", false, {-1, 0}, {1}, [](double v) { return StatusOf(ClipByValue, v); }},
      {"clipnorm", false, {-1, 0}, {1}, [](double v) { return StatusOf(ClipByNorm, v); }},
      {"clipnorm", false, {-1, 0}, {1}, [](double v) { return StatusOf(ClipByGlobalNorm, v); }},
      OPTION(hooks::PowerSGD, hooks::PowerSGDOptions, matrix_approximation_rank, ({-1, 0}), ({1}),
             {}),
      OPTION(hooks::PowerSGD, hooks::PowerSGDOptions, start_powersgd_iter, ({-1}), ({0}), {}),
      OPTION(hooks::PowerSGD, hooks::PowerSGDOptions, min_compression_rate, ({-1}), ({0}), {}),
      OPTION(hooks::PowerSGD, hooks::PowerSGDOptions, orthogonalization_epsilon, ({-1}), ({0}), {}),
      {"l1", false, {-1}, {0}, [](double v) { return StatusOfPenalty(regularizers::L1(v)); }},
      {"l2", false, {-1}, {0}, [](double v) { return StatusOfPenalty(regularizers::L2(v)); }},
      PENALTY(regularizers::L1L2, regularizers::L1L2Options, l1, ({-1}), ({0}), {}),
      PENALTY(regularizers::L1L2, regularizers::L1L2Options, l2, ({-1}), ({0}), {}),
      PENALTY(regularizers::OrthogonalRegularizer, regularizers::OrthogonalOptions, factor, ({-1}),
              ({0}), {}),
      {"momentum",
       false,
       {-0.1, 1.1},
       {0, 1},
       [](double v) {
         return StatusOfPenalty(Regularizer([v](const Scope& s, Output x) {
           return layers::BatchNorm(s, x, nullptr, {.momentum = v});
         }));
       }},
  };
}

std::vector<Row> AllRows() {
  std::vector<Row> rows = RuleRows();
  for (const std::vector<Row>& more : {ScheduleRows(), OtherRows()}) {
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

TEST(NumericOptions, ValuesOutOfRangeAreErrorsThatNameTheOption) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const Row& row : AllRows()) {
    Numbers bad = row.bad;
    if (!row.is_integer) bad.insert(bad.end(), {std::nan(""), kInfinity, -kInfinity});
    for (const double value : bad) {
      EXPECT_THAT(row.status_with(value),
                  IsError(kInvalid, absl::StrCat(": ", row.name, ": expected "),
                          absl::StrCat(", got ", value)));
    }
    for (const double value : row.good) {
      const absl::Status status = row.status_with(value);
      EXPECT_TRUE(status.ok()) << row.name << " = " << value << ": " << status;
    }
  }
}

// If this fails, add a row for the new option to the table above.
TEST(NumericOptions, TableHasEveryNumberInTheHeaders) {
  std::set<std::string> in_table;
  for (const Row& row : AllRows()) in_table.insert(row.name);
  // Rows for MinimizeOptions set these through options with other names.
  in_table.insert({"multiplier", "overwrite_frequency"});
  // These are the value of a constant LearningRate, and operands of update formulas.
  in_table.insert({"value", "x", "y", "decay"});
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("train/optimizers")) {
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    for (const std::string& number : NumbersOf(text.str())) {
      found.insert(number.substr(number.rfind('.') + 1));
    }
  }
  EXPECT_GT(found.size(), 40u);
  for (const std::string& name : found)
    EXPECT_EQ(in_table.count(name), 1u) << "no row for " << name;
}

TEST(NumericOptions, ErrorsSayWhichNumbersAreLegal) {
  const auto error = [](const NumberRange& range, double value) {
    return CheckNumbers("Rule", {{"option", value, range}});
  };
  EXPECT_THAT(error(kNotNegative, -1), IsError(kInvalid, "Rule: option:", "0 or more", "got -1"));
  EXPECT_THAT(error(kPositive, 0), IsError(kInvalid, "Rule: option:", "above 0", "got 0"));
  EXPECT_THAT(error(kNotPositive, 1), IsError(kInvalid, "Rule: option:", "0 or less", "got 1"));
  EXPECT_THAT(error(kFraction, 1.5), IsError(kInvalid, "Rule: option:", "0 to 1", "got 1.5"));
  EXPECT_THAT(error(kBelowOne, 1), IsError(kInvalid, "Rule: option:", "below 1", "got 1"));
  EXPECT_THAT(error(kNotNegative, std::numeric_limits<double>::infinity()),
              IsError(kInvalid, "Rule: option:", "finite", "got inf"));
  EXPECT_THAT(error(kAtLeastOne, std::nan("")),
              IsError(kInvalid, "Rule: option:", "1 or more", "got nan"));
}

}  // namespace
}  // namespace mirrorflow
