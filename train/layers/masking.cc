// SPDX-License-Identifier: Apache-2.0
#include "train/layers/masking.h"

#include <cmath>

#include "ops/binary.h"
#include "ops/constant.h"
#include "ops/reduction.h"
#include "ops/reshape.h"
#include "ops/select.h"
#include "train/layers/layer_support.h"

namespace mirrorflow {
namespace layers {

MaskingOutputs Masking(const Scope& scope, Output x, double mask_value) {
  const Scope s = scope.SubScope("masking");
  if (!s.ok() || !CheckRank(s, x, 3, "masking")) return {};
  if (std::isnan(mask_value)) {  // NaN equals no element
    Fail(s, "masking: mask_value: expected a number, got nan");
    return {};
  }
  const Output differs = ops::NotEqual(s, x, ops::ScalarConst(s, x.dtype(), mask_value));
  const Output kept = ops::Any(s, differs, {2}, {.keep_dims = true});
  return {ops::SelectV2(s, kept, x, ops::ScalarConst(s, x.dtype(), 0)),
          ops::Squeeze(s, kept, {.axis = {2}})};
}

Output PaddingMask(const Scope& scope, Output ids, int64_t padding_id) {
  if (!scope.ok()) return Output();
  return ops::NotEqual(scope, ids,
                       ops::ScalarConst(scope, ids.dtype(), static_cast<double>(padding_id)));
}

}  // namespace layers
}  // namespace mirrorflow
