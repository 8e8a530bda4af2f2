// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_LAYERS_SHARED_H_
#define MIRRORFLOW_TRAIN_LAYERS_SHARED_H_

#include <string>
#include <utility>

#include "framework/graph/scope.h"
#include "train/variable.h"

namespace mirrorflow {
namespace layers {

// Shared: one or several layers that can be applied repeatedly with the same variables, like a
// layer object in Keras or a module in PyTorch. (The layer functions themselves create new
// variables in every call.) The gradients of all applications are summed.
//
//   layers::Shared encoder("encoder", [](const Scope& scope, Output x) {
//     return layers::Dense(scope, layers::Dense(scope, x, 128, ops::Relu), 64);
//   });
//   Output distance = ops::SquaredDifference(root, encoder(root, left), encoder(root, right));
//
// `layer` is a function that takes a scope and any further arguments. Calling the Shared calls
// `layer` with a scope named `name` and returns its result. The first call creates the variables.
// Errors:   InvalidArgument if a later call needs variables with other shapes or dtypes than the
//           first, needs more or fewer of them, or is for another graph; also if `layer` creates a
//           Shared: create the inner Shared outside `layer` and capture it. Unimplemented if
//           `layer` contains a BatchNorm and is applied more than once.
template <typename Layer>
class Shared {
 public:
  Shared(std::string name, Layer layer) : name_(std::move(name)), layer_(std::move(layer)) {}

  template <typename... Args>
  auto operator()(const Scope& scope, Args&&... args) {
    const Scope inside = scope.SubScope(name_);
    const VariableSharing sharing(inside, name_, &variables_);
    return layer_(inside, std::forward<Args>(args)...);
  }

 private:
  const std::string name_;
  Layer layer_;
  SharedVariables variables_;
};

}  // namespace layers
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LAYERS_SHARED_H_
