// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_CAST_H_
#define MIRRORFLOW_OPS_CAST_H_

#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterCast(OpRegistry& ops);

namespace ops {

inline constexpr char kCast[] = "Cast";  // for passes that are about it

struct CastOptions {
  // Rounds towards zero where a float type cannot hold the number: not from double to float.
  bool truncate = false;
};

// Cast: the same numbers in another dtype.
// Dtypes:   all pairs. Floats go to integers towards zero; what does not fit, NaN included, becomes
//           the smallest integer, as on x86. Integers wrap around. Everything but 0 is true.
// Gradient: dy cast back, between floats; none otherwise.
Output Cast(const Scope& scope, Output x, DataType dtype, const CastOptions& options = {});

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_CAST_H_
