// SPDX-License-Identifier: Apache-2.0
//
// Activation: what a layer applies to its result: an op such as ops::Relu, or any callable that
// takes a scope and a value.
//
//   layers::Dense(scope, x, 128, ops::Relu);
//   layers::Dense(scope, x, 128, [](const Scope& s, Output y) { return ops::LeakyRelu(s, y); });
#ifndef MIRRORFLOW_TRAIN_LAYERS_ACTIVATION_H_
#define MIRRORFLOW_TRAIN_LAYERS_ACTIVATION_H_

#include <concepts>
#include <cstddef>
#include <functional>
#include <utility>

#include "framework/graph/scope.h"

namespace mirrorflow {
namespace layers {

class Activation {
 public:
  Activation(std::nullptr_t = nullptr) {}  // NOLINT: the identity
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

}  // namespace layers
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LAYERS_ACTIVATION_H_
