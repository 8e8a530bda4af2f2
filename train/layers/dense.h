// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_LAYERS_DENSE_H_
#define MIRRORFLOW_TRAIN_LAYERS_DENSE_H_

#include <cstdint>
#include <string>

#include "framework/graph/scope.h"
#include "train/layers/activation.h"
#include "train/variable.h"

namespace mirrorflow {
namespace layers {

struct DenseOptions {
  bool use_bias = true;
  Initializer kernel_initializer = initializers::GlorotUniform();
  Initializer bias_initializer = initializers::Zeros();
  std::string name = "dense";
};

// Dense: y = activation(x · kernel + bias).
// Shapes:   x [batch, in] -> y [batch, units], or sequences x [batch, n, in] -> y [batch, n,
//           units]; variables kernel [in, units], bias [units].
// Errors:   InvalidArgument if x has any other rank (use Flatten for images), if `in` is unknown,
//           if both `batch` and `n` of a sequence are unknown, or if `units` is less than 1.
Output Dense(const Scope& scope, Output x, int64_t units, const Activation& activation = nullptr,
             const DenseOptions& options = {});

}  // namespace layers
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LAYERS_DENSE_H_
