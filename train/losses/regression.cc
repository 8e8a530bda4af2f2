// SPDX-License-Identifier: Apache-2.0
#include "train/losses/regression.h"

#include <cmath>

#include "absl/functional/function_ref.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/constant.h"
#include "ops/reduction.h"
#include "ops/select.h"
#include "ops/unary.h"
#include "train/numeric_options.h"

namespace mirrorflow {
namespace losses {
namespace {

constexpr double kEpsilon = 1e-7;  // Keras' backend.epsilon()

using Terms = absl::FunctionRef<Output(const Scope&, Output p, Output y)>;

// Returns the loss whose terms are terms(scope, predictions, labels).
template <typename Options>
Output LossOf(const Scope& scope, absl::string_view what, Output predictions, Output labels,
              const Options& options, Terms terms) {
  const Scope s = scope.SubScope(options.name);
  if (!CheckEqualShapes(s, what, predictions, labels)) return Output();
  const Output y = AsType(s, labels, predictions.dtype());
  return ReduceTerms(s, what, terms(s, predictions, y), options);
}

Output Number(const Scope& s, const Output& like, double value) {
  return ops::ScalarConst(s, like.dtype(), value);
}

Output AtLeastEpsilon(const Scope& s, Output x) {
  return ops::Maximum(s, x, Number(s, x, kEpsilon));
}

// Returns x / |x| along the last dimension. Zero vectors stay zero.
Output Normalize(const Scope& s, Output x) {
  const Output squares = ops::Sum(s, ops::Square(s, x), {-1}, {.keep_dims = true});
  // If the sum is 0, dividing by the root of 1 keeps the gradient finite.
  const Output zero = ops::Equal(s, squares, Number(s, x, 0));
  const Output safe = ops::SelectV2(s, zero, ops::OnesLike(s, squares), squares);
  const Output inverse = ops::Minimum(s, ops::Rsqrt(s, safe), Number(s, x, 1 / kEpsilon));
  return ops::Mul(s, x, inverse);
}

}  // namespace

Output MeanSquaredError(const Scope& scope, Output predictions, Output labels,
                        const LossOptions& options) {
  return LossOf(scope, "mean_squared_error", predictions, labels, options,
                [](const Scope& s, Output p, Output y) { return ops::SquaredDifference(s, p, y); });
}

Output MeanAbsoluteError(const Scope& scope, Output predictions, Output labels,
                         const LossOptions& options) {
  return LossOf(scope, "mean_absolute_error", predictions, labels, options,
                [](const Scope& s, Output p, Output y) { return ops::Abs(s, ops::Sub(s, p, y)); });
}

Output MeanAbsolutePercentageError(const Scope& scope, Output predictions, Output labels,
                                   const LossOptions& options) {
  return LossOf(scope, "mean_absolute_percentage_error", predictions, labels, options,
                [](const Scope& s, Output p, Output y) {
                  const Output error = ops::Abs(s, ops::Sub(s, p, y));
                  const Output size = AtLeastEpsilon(s, ops::Abs(s, y));
                  return ops::Mul(s, Number(s, p, 100), ops::RealDiv(s, error, size));
                });
}

Output MeanSquaredLogarithmicError(const Scope& scope, Output predictions, Output labels,
                                   const LossOptions& options) {
  return LossOf(scope, "mean_squared_logarithmic_error", predictions, labels, options,
                [](const Scope& s, Output p, Output y) {
                  return ops::SquaredDifference(s, ops::Log1p(s, AtLeastEpsilon(s, p)),
                                                ops::Log1p(s, AtLeastEpsilon(s, y)));
                });
}

Output LogCosh(const Scope& scope, Output predictions, Output labels, const LossOptions& options) {
  return LossOf(scope, "log_cosh", predictions, labels, options,
                [](const Scope& s, Output p, Output y) {
                  const Output e = ops::Sub(s, p, y);
                  const Output tail = ops::Softplus(s, ops::Mul(s, e, Number(s, e, -2)));
                  return ops::Sub(s, ops::AddV2(s, e, tail), Number(s, e, std::log(2.0)));
                });
}

Output Poisson(const Scope& scope, Output predictions, Output labels, const LossOptions& options) {
  return LossOf(scope, "poisson", predictions, labels, options,
                [](const Scope& s, Output p, Output y) {
                  const Output log = ops::Log(s, ops::AddV2(s, p, Number(s, p, kEpsilon)));
                  return ops::Sub(s, p, ops::Mul(s, y, log));
                });
}

Output Huber(const Scope& scope, Output predictions, Output labels, const HuberOptions& options) {
  const double delta = options.delta;
  if (!CheckNumbers(scope, "huber", {{"delta", delta, kPositive}})) return Output();
  return LossOf(
      scope, "huber", predictions, labels, options, [&](const Scope& s, Output p, Output y) {
        const Output e = ops::Sub(s, p, y), size = ops::Abs(s, e);
        const Output squared = ops::Mul(s, Number(s, e, 0.5), ops::Square(s, e));
        const Output linear =
            ops::Sub(s, ops::Mul(s, size, Number(s, e, delta)), Number(s, e, 0.5 * delta * delta));
        const Output is_small = ops::LessEqual(s, size, Number(s, e, delta));
        return ops::SelectV2(s, is_small, squared, linear);
      });
}

Output CosineSimilarity(const Scope& scope, Output predictions, Output labels,
                        const LossOptions& options) {
  const Scope s = scope.SubScope(options.name);
  constexpr absl::string_view kWhat = "cosine_similarity";
  if (!CheckEqualShapes(s, kWhat, predictions, labels, 2)) return Output();
  const Output y = AsType(s, labels, predictions.dtype());
  const Output products = ops::Mul(s, Normalize(s, predictions), Normalize(s, y));
  return ReduceLosses(s, kWhat, ops::Neg(s, ops::Sum(s, products, {-1})), options);
}

}  // namespace losses
}  // namespace mirrorflow
