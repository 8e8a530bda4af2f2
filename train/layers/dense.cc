// SPDX-License-Identifier: Apache-2.0
#include "train/layers/dense.h"

#include <optional>

#include "ops/matmul.h"
#include "ops/reshape.h"
#include "train/layers/layer_support.h"

namespace mirrorflow {
namespace layers {

Output Dense(const Scope& scope, Output x, int64_t units, const Activation& activation,
             const DenseOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!s.ok() || !CheckSize(s, options.name, "units", units)) return Output();
  Shape rows = s.shape(x);
  // Reject images: their rows are not examples, so the caller probably forgot Flatten.
  const bool is_sequence = !rows.unknown_rank() && rows.rank() == 3;
  const std::optional<int64_t> in = InputDepth(s, x, is_sequence ? 3 : 2, options.name);
  if (!in) return Output();
  const Variable kernel = CreateVariable(s, "kernel", {*in, units}, options.kernel_initializer);
  if (is_sequence) x = ops::Reshape(s, x, Shape({kUnknownDim, *in}));
  const Output y = AddBias(s, ops::MatMul(s, x, kernel.value), units, options, activation);
  if (!is_sequence) return y;
  rows.set_dim(rows.rank() - 1, units);
  if (ops::IsReshapeTarget(rows)) return ops::Reshape(s, y, rows);
  return Fail(s, options.name, ": expected at most one unknown dimension, got shape ",
              rows.ToString());
}

}  // namespace layers
}  // namespace mirrorflow
