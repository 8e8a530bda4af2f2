// SPDX-License-Identifier: Apache-2.0
#include "train/layers/activation.h"

#include <numeric>

#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/constant.h"
#include "ops/select.h"
#include "ops/softmax.h"
#include "ops/transpose.h"
#include "ops/unary.h"
#include "train/layers/layer_support.h"
#include "train/numeric_options.h"

namespace mirrorflow {
namespace layers {

Output ReLU(const Scope& scope, Output x, const ReLUOptions& options) {
  const Scope s = scope.SubScope("relu");
  if (!CheckNumbers(s, "relu",
                    {{"negative_slope", options.negative_slope, kAnyNumber},
                     {"threshold", options.threshold, kAnyNumber}})) {
    return Output();
  }
  if (options.max_value && !(*options.max_value >= options.threshold)) {
    return Fail(s, "relu: max_value out of range; expected at least the threshold, got ",
                *options.max_value, " and threshold ", options.threshold);
  }
  const auto number = [&](double value) { return ops::ScalarConst(s, x.dtype(), value); };
  Output y;
  if (options.threshold != 0) {
    const Output threshold = number(options.threshold);
    const Output below = ops::Mul(s, ops::Sub(s, x, threshold), number(options.negative_slope));
    y = ops::SelectV2(s, ops::GreaterEqual(s, x, threshold), x, below);
  } else if (options.negative_slope != 0) {
    y = LeakyReLU(s, x, options.negative_slope);
  } else {
    y = ops::Relu(s, x);
  }
  return options.max_value ? ops::Minimum(s, y, number(*options.max_value)) : y;
}

Output LeakyReLU(const Scope& scope, Output x, double negative_slope) {
  const bool is_valid =
      CheckNumbers(scope, "leaky_relu", {{"negative_slope", negative_slope, kAnyNumber}});
  if (!is_valid) return Output();
  return ops::LeakyRelu(scope, x, {.alpha = static_cast<float>(negative_slope)});
}

Output ELU(const Scope& scope, Output x, double alpha) {
  if (!CheckNumbers(scope, "elu", {{"alpha", alpha, kAnyNumber}})) return Output();
  if (alpha == 1) return ops::Elu(scope, x);
  const Scope s = scope.SubScope("elu");
  if (!s.ok()) return Output();
  const Output below = ops::Mul(s, ops::Elu(s, x), ops::ScalarConst(s, x.dtype(), alpha));
  return ops::SelectV2(s, ops::GreaterEqual(s, x, ops::ScalarConst(s, x.dtype(), 0)), x, below);
}

Output PReLU(const Scope& scope, Output x, const PReLUOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!s.ok()) return Output();
  const Shape& shape = s.shape(x);
  const int rank = shape.unknown_rank() || shape.rank() < 2 ? 2 : shape.rank();
  if (!CheckExamples(s, x, rank, options.name)) return Output();
  std::vector<int64_t> dims(shape.dims().begin() + 1, shape.dims().end());
  for (const int64_t axis : options.shared_axes) {
    if (axis < 1 || axis >= rank) {
      return Fail(s, options.name, ": shared_axes out of range; expected 1 to ", rank - 1, ", got ",
                  axis);
    }
    dims[axis - 1] = 1;
  }
  const Variable alpha = CreateVariable(s, "alpha", Shape(dims), options.alpha_initializer);
  const Output negative = ops::Sub(s, x, ops::Relu(s, x));
  return ops::AddV2(s, ops::Relu(s, x), ops::Mul(s, alpha.value, negative));
}

Output Softmax(const Scope& scope, Output x, int64_t axis) {
  const Scope s = scope.SubScope("softmax");
  if (!s.ok()) return Output();
  if (axis == -1) return ops::Softmax(s, x);
  const int rank = s.shape(x).unknown_rank() ? 0 : s.shape(x).rank();
  const int64_t dim = axis < 0 ? axis + rank : axis;
  if (dim < 1 || dim >= rank) {
    return Fail(s,
                "softmax: axis out of range; expected a dimension other than the batch of shape ",
                s.shape(x).ToString(), ", got ", axis);
  }
  std::vector<int64_t> perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[dim], perm[rank - 1]);
  return ops::Transpose(s, ops::Softmax(s, ops::Transpose(s, x, perm)), perm);
}

}  // namespace layers
}  // namespace mirrorflow
