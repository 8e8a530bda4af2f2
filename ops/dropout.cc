// SPDX-License-Identifier: Apache-2.0
#include "ops/dropout.h"

#include "absl/strings/str_cat.h"
#include "ops/binary.h"
#include "ops/constant.h"
#include "ops/select.h"
#include "ops/shape_ops.h"

namespace mirrorflow {
namespace ops {

Output Dropout(const Scope& scope, Output x, double rate, const RandomOptions& options) {
  if (!x.valid()) return Output();
  if (!(rate >= 0 && rate < 1)) {
    scope.Fail(absl::InvalidArgumentError(
        absl::StrCat("Dropout: rate must be at least 0 and below 1, got ", rate)));
    return Output();
  }
  if (!IsFloating(x.dtype())) {
    scope.Fail(absl::InvalidArgumentError(absl::StrCat(
        "Dropout: x must have a floating-point dtype, got ", DataTypeName(x.dtype()))));
    return Output();
  }
  if (rate == 0) return scope.Owns(x) ? x : Output();
  const Scope s = scope.SubScope("dropout");
  const Output scaled = Mul(s, x, ScalarConst(s, x.dtype(), 1 / (1 - rate)));
  const Output random = RandomUniform(s, ShapeOperand(s, x), x.dtype(), options);
  const Output keep = GreaterEqual(s, random, ScalarConst(s, x.dtype(), rate));
  return SelectV2(s, keep, scaled, ScalarConst(s, x.dtype(), 0));
}

}  // namespace ops
}  // namespace mirrorflow
