// SPDX-License-Identifier: Apache-2.0
//
// Activation: the function that a layer applies to its result. It is an op such as ops::Relu, or
// any callable that takes a scope and a value. A null Activation leaves the result unchanged. This
// header also declares activation layers that have options or variables.
//
//   layers::Dense(scope, x, 128, ops::Relu);
//   layers::Dense(scope, x, 128, [](const Scope& s, Output y) { return ops::LeakyRelu(s, y); });
#ifndef MIRRORFLOW_TRAIN_LAYERS_ACTIVATION_H_
#define MIRRORFLOW_TRAIN_LAYERS_ACTIVATION_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/graph/scope.h"
#include "train/variable.h"

namespace mirrorflow {
namespace layers {

class Activation {
 public:
  Activation(std::nullptr_t = nullptr) {}  // NOLINT: identity
  // NOLINTNEXTLINE: selects the overload of an op such as ops::Gelu
  Activation(Output (*op)(const Scope&, Output)) : apply_(op) {}
  template <std::invocable<const Scope&, Output> F>
  Activation(F apply) : apply_(std::move(apply)) {}  // NOLINT

  Output operator()(const Scope& scope, Output y) const {
    if (apply_) return apply_(scope, y);
    return scope.Owns(y) ? y : Output();
  }

 private:
  std::function<Output(const Scope&, Output)> apply_;
};

// The layers below return a value of x's shape.
// Errors:   InvalidArgument if an option is not finite, unless the option's comment says otherwise.

struct ReLUOptions {
  std::optional<double> max_value = {};  // at least `threshold`; may be infinite; unset: no limit
  double negative_slope = 0;
  double threshold = 0;
};

// ReLU: x where x >= threshold, negative_slope * (x - threshold) elsewhere. Results above max_value
// are replaced by max_value.
Output ReLU(const Scope& scope, Output x, const ReLUOptions& options = {});

// LeakyReLU: x where x >= 0, negative_slope * x elsewhere.
Output LeakyReLU(const Scope& scope, Output x, double negative_slope = 0.3);

// ELU: x where x >= 0, alpha * (e^x - 1) elsewhere.
Output ELU(const Scope& scope, Output x, double alpha = 1);

struct PReLUOptions {
  Initializer alpha_initializer = initializers::Zeros();
  // The dimensions along which all elements have the same slope. 0 is the batch, whose elements
  // always do: for images, {1, 2} trains one slope per channel.
  std::vector<int64_t> shared_axes = {};
  std::string name = "prelu";
};

// PReLU: x where x >= 0, alpha * x elsewhere, with trainable slopes alpha.
// Shapes:   x [batch, …]; variable alpha has x's shape without the batch, and size 1 along the
//           shared axes.
// Errors:   InvalidArgument if a dimension other than the batch is unknown, or if `shared_axes`
//           contains a number outside [1, rank).
// Source:   He et al., "Delving deep into rectifiers", 2015.
Output PReLU(const Scope& scope, Output x, const PReLUOptions& options = {});

// Softmax: exp(x) / sum(exp(x)), with the sum along dimension `axis`; -1 is the last dimension.
// Errors:   InvalidArgument if x has no dimension `axis`, or if it is the batch.
Output Softmax(const Scope& scope, Output x, int64_t axis = -1);

}  // namespace layers
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LAYERS_ACTIVATION_H_
