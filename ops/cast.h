// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_CAST_H_
#define MIRRORFLOW_OPS_CAST_H_

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

inline constexpr char kCast[] = "Cast";  // for passes that match this op

struct CastOptions {
  // If true, rounds towards zero if a floating-point type cannot represent the value exactly. This
  // is Unimplemented for casts to a smaller floating-point type, such as double to float.
  bool truncate = false;
};

// Cast: the same values in another dtype.
// Dtypes:   all pairs. Casts from floating-point to integer round towards zero; a value that does
//           not fit, including NaN, becomes the smallest int32 or int64, as on x86. Integers wrap
//           around. Every value except 0 casts to true.
// Gradient: dy cast back if both dtypes are floating-point; otherwise none.
Output Cast(const Scope& scope, Output x, DataType dtype, const CastOptions& options = {});

// Returns x itself if it has the dtype, and otherwise Cast(x).
Output CastTo(const Scope& scope, Output x, DataType dtype);

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_CAST_H_
