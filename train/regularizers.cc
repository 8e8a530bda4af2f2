// SPDX-License-Identifier: Apache-2.0
#include "train/regularizers.h"

#include "absl/strings/str_cat.h"
#include "ops/add_n.h"
#include "ops/binary.h"
#include "ops/cast.h"
#include "ops/constant.h"
#include "ops/matmul.h"
#include "ops/reduction.h"
#include "ops/unary.h"
#include "ops/variable.h"
#include "train/numeric_options.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

Output Fail(const Scope& scope, absl::string_view what) {
  scope.Fail(absl::InvalidArgumentError(what));
  return Output();
}

// Returns factor * sum(terms).
Output ScaledSum(const Scope& s, Output terms, double factor) {
  return ops::Mul(s, ops::Sum(s, terms), ops::ScalarConst(s, terms.dtype(), factor));
}

}  // namespace

namespace regularizers {

Regularizer L1(double l1) {
  return [l1](const Scope& s, Output x) {
    if (!CheckNumbers(s, "L1", {{"l1", l1, kNotNegative}})) return Output();
    return ScaledSum(s, ops::Abs(s, x), l1);
  };
}

Regularizer L2(double l2) {
  return [l2](const Scope& s, Output x) {
    if (!CheckNumbers(s, "L2", {{"l2", l2, kNotNegative}})) return Output();
    return ScaledSum(s, ops::Square(s, x), l2);
  };
}

Regularizer L1L2(const L1L2Options& options) {
  return [options](const Scope& s, Output x) {
    return ops::AddV2(s, L1(options.l1)(s, x), L2(options.l2)(s, x));
  };
}

Regularizer OrthogonalRegularizer(const OrthogonalOptions& options) {
  return [options](const Scope& s, Output x) {
    if (!CheckNumbers(s, "OrthogonalRegularizer", {{"factor", options.factor, kNotNegative}})) {
      return Output();
    }
    const Shape shape = s.shape(x);
    const int along = options.columns ? 0 : 1;  // the dimension that each vector spans
    if (shape.unknown_rank() || shape.rank() != 2 || shape.dim(1 - along) < 2) {
      return Fail(
          s, absl::StrCat("OrthogonalRegularizer: expected a matrix with at least two ",
                          options.columns ? "columns" : "rows", ", got shape ", shape.ToString()));
    }
    const auto count = static_cast<double>(shape.dim(1 - along));
    const Output squares = ops::Sum(s, ops::Square(s, x), {along}, {.keep_dims = true});
    // A zero vector is treated as orthogonal to all others.
    const Output unit = ops::Mul(
        s, x, ops::Rsqrt(s, ops::Maximum(s, squares, ops::ScalarConst(s, x.dtype(), 1e-14))));
    const Output cosines =
        ops::Abs(s, ops::MatMul(s, unit, unit,
                                {.transpose_a = options.columns, .transpose_b = !options.columns}));
    const Output diagonal =
        initializers::Identity()(s, Shape({shape.dim(1 - along), shape.dim(1 - along)}), x.dtype());
    const Output others = ops::Mul(s, cosines, ops::Sub(s, ops::OnesLike(s, diagonal), diagonal));
    return ScaledSum(s, others, options.factor / (count * (count - 1)));
  };
}

}  // namespace regularizers

std::vector<Output> TrainableVariablesNamed(const Graph& graph, absl::string_view name) {
  std::vector<Output> found;
  for (const Output& handle : TrainableVariables(graph)) {
    const absl::string_view full = handle.node->name();
    const size_t slash = full.rfind('/');
    if ((slash == absl::string_view::npos ? full : full.substr(slash + 1)) == name) {
      found.push_back(handle);
    }
  }
  return found;
}

Output RegularizationLoss(const Scope& scope, const Regularizer& regularizer,
                          const RegularizationOptions& options) {
  const Scope s = scope.SubScope(options.name);
  std::vector<Output> handles = options.variables;
  if (handles.empty()) handles = TrainableVariablesNamed(s.graph(), "kernel");
  if (handles.empty()) {
    return Fail(s,
                "RegularizationLoss: the graph has no trainable variable named 'kernel'; build the "
                "layers first, or set RegularizationOptions::variables");
  }
  std::vector<Output> penalties;
  for (const Output& handle : handles) {
    const Output penalty = regularizer(s, ops::ReadVariableOp(s, handle));
    if (!penalty.valid() || !s.Owns(penalty)) return Output();
    penalties.push_back(penalty.dtype() == DT_FLOAT ? penalty : ops::Cast(s, penalty, DT_FLOAT));
  }
  return penalties.size() == 1 ? penalties[0] : ops::AddN(s, penalties);
}

}  // namespace mirrorflow
