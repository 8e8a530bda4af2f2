// SPDX-License-Identifier: Apache-2.0
//
// Compares the functions of one number, on the CPU, with a higher precision. Their errors are at
// most those of OpDef::max_ulps, which docs/ops shows.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "framework/runtime/evaluate_node.h"
#include "gtest/gtest.h"
#include "kernels/cpu/all_kernels.h"
#include "ops/control.h"
#include "ops/registry.h"
#include "tests/support/tensors.h"

namespace mirrorflow {
namespace {

using Real = long double;  // has 64 bits of precision

// The derivative of log gamma. Far from 0, it is the sum of a series in 1 / x.
Real Digamma(Real x) {
  constexpr Real kPi = 3.14159265358979323846264338327950288L;
  if (x <= 0 && std::floor(x) == x) return std::numeric_limits<Real>::quiet_NaN();
  if (x < 0) return Digamma(1 - x) - kPi / std::tan(kPi * (x - std::round(x)));
  if (std::isinf(x)) return x;
  Real sum = 0;
  for (; x < 30; ++x) sum -= 1 / x;
  constexpr Real kBernoulli[] = {1.0L / 6, -1.0L / 30, 1.0L / 42, -1.0L / 30, 5.0L / 66};
  sum += std::log(x) - 1 / (2 * x);
  Real power = 1;
  for (int k = 1; k <= 5; ++k) sum -= kBernoulli[k - 1] / (2 * k * (power *= x * x));
  return sum;
}

Real Logistic(Real x) { return 1 / (1 + std::exp(-x)); }

struct Function {
  const char* op;
  Real (*value)(Real);
  // Results closer to 0 than this are measured in ulps of this number.
  Real least = 0;
};

constexpr Function kFunctions[] = {
    {"Acos", std::acos},
    {"Acosh", std::acosh},
    {"Asin", std::asin},
    {"Asinh", std::asinh},
    {"Atan", std::atan},
    {"Atanh", std::atanh},
    {"Cos", std::cos},
    {"Cosh", std::cosh},
    {"Digamma", Digamma, 1},
    {"Elu", [](Real x) { return x < 0 ? std::expm1(x) : x; }},
    {"Erf", std::erf},
    {"Erfc", std::erfc},
    {"Exp", std::exp},
    {"Expm1", std::expm1},
    {"Gelu", [](Real x) { return x / 2 * std::erfc(-x * std::sqrt(0.5L)); }},
    {"Lgamma", std::lgamma},
    {"Log", std::log},
    {"Log1p", std::log1p},
    {"Rsqrt", [](Real x) { return 1 / std::sqrt(x); }},
    {"Selu",
     [](Real x) {
       constexpr Real kScale = 1.0507009873554804934193349852946L;
       constexpr Real kScaleAlpha = 1.7580993408473768599402175208123L;
       return x < 0 ? kScaleAlpha * std::expm1(x) : kScale * x;
     }},
    {"Sigmoid", Logistic},
    {"Sin", std::sin},
    {"Sinh", std::sinh},
    {"Softplus", [](Real x) { return std::max<Real>(x, 0) + std::log1p(std::exp(-std::abs(x))); }},
    {"Softsign", [](Real x) { return x / (1 + std::abs(x)); }},
    {"Tan", std::tan},
    {"Tanh", std::tanh},
};

template <typename T>
std::vector<T> Evaluate(const std::string& op, const std::vector<T>& values) {
  Graph graph;
  const Scope scope(&graph);
  const Shape shape({static_cast<int64_t>(values.size())});
  const Output y = ops::Apply(scope, op, {ops::Placeholder(scope, DataTypeOf<T>(), shape)});
  EXPECT_TRUE(scope.ok()) << scope.status();
  const absl::StatusOr<std::vector<Tensor>> result =
      EvaluateNode(*y.node, {Tensor::Of<T>(shape, values)}, {shape}, CpuKernels());
  EXPECT_TRUE(result.ok()) << result.status();
  return std::vector<T>(result->at(0).flat<T>().begin(), result->at(0).flat<T>().end());
}

// Returns the error of `got` in ulps of max(|want|, least). Returns infinity if exactly one of the
// two is NaN, or if `want` is infinite and `got` is not.
template <typename T>
double UlpsBetween(T got, Real want, Real least) {
  using Limits = std::numeric_limits<T>;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (std::isnan(want) && std::isnan(got)) return 0;
  if (std::isnan(want) || std::isnan(got)) return kInfinity;
  if (std::isinf(want)) return got == static_cast<T>(want) ? 0 : kInfinity;
  // A result below the smallest normal number can be 0.
  if (std::abs(got - want) <= Limits::min()) return 0;
  // A result that overflows is infinite.
  const auto finite = [](Real x) { return std::clamp<Real>(x, Limits::lowest(), Limits::max()); };
  const Real size = std::max(std::abs(finite(want)), least);
  const Real ulp = std::ldexp(Real(1), std::ilogb(size) - (Limits::digits - 1));
  return static_cast<double>(std::abs(finite(got) - finite(want)) / ulp);
}

// Numbers of all magnitudes, infinities and NaN.
std::vector<float> Operands(float) {
  constexpr uint32_t kStep = 4093;  // a prime, so that the last bits vary
  std::vector<float> operands;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += kStep) {
    operands.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  return operands;
}
std::vector<double> Operands(double) {
  Random random(1);
  std::vector<double> operands;
  for (int i = 0; i < 100'000; ++i) {
    operands.push_back(std::bit_cast<double>(random.Next()));
    operands.push_back(random.Uniform(-1, 1));
    operands.push_back(random.Uniform(-40, 40));
  }
  return operands;
}

template <typename T>
void ExpectErrorsAtMost(int ulps, const Function& function) {
  const std::vector<T> x = Operands(T());
  const std::vector<T> y = Evaluate(function.op, x);
  double worst = 0;
  T at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double error = UlpsBetween(y[i], function.value(x[i]), function.least);
    if (error <= worst) continue;
    worst = error;
    at = x[i];
  }
  EXPECT_LE(worst, ulps) << function.op << "(" << at << ")";
}

class AccuracyTest : public testing::TestWithParam<Function> {};
INSTANTIATE_TEST_SUITE_P(Functions, AccuracyTest, testing::ValuesIn(kFunctions),
                         [](const auto& info) { return std::string(info.param.op); });

TEST_P(AccuracyTest, ErrorsAreWithinDocumentedBounds) {
  const OpDef* const op = AllOps().Find(GetParam().op);
  ASSERT_NE(op, nullptr);
  ExpectErrorsAtMost<float>(op->max_ulps.of_float, GetParam());
  ExpectErrorsAtMost<double>(op->max_ulps.of_double, GetParam());
}

// Functions of one number that are correctly rounded.
const std::set<std::string>& ExactOps() {
  static const auto* const ops = new std::set<std::string>{
      "Abs",        "Cast",   "Ceil",     "CheckNumerics", "CheckNumericsV2", "Floor",
      "Inv",        "Invert", "IsFinite", "IsInf",         "IsNan",           "LeakyRelu",
      "LogicalNot", "Neg",    "Relu",     "Relu6",         "Reciprocal",      "Rint",
      "Round",      "Sign",   "Sqrt",     "Square",        "ZerosLike"};
  return *ops;
}

TEST(Accuracy, EveryFunctionHasTestedBound) {
  std::set<std::string> tested;
  for (const Function& function : kFunctions) tested.insert(function.op);
  for (const OpDef* op : AllOps().All()) {
    const bool has_bound = op->max_ulps.of_float > 0;
    EXPECT_EQ(has_bound, tested.count(op->name) > 0) << op->name;
    const bool is_function = op->has(kElementwise) && op->inputs.size() == 1 &&
                             op->inputs[0].number_attr.empty() && op->role == OpRole::kNone;
    if (!is_function || has_bound) continue;
    EXPECT_TRUE(ExactOps().count(op->name) > 0) << op->name;
  }
}

}  // namespace
}  // namespace mirrorflow
