// SPDX-License-Identifier: Apache-2.0
//
// Ops that pad a tensor with the mirror image of the elements at its border.
#ifndef MIRRORFLOW_OPS_MIRROR_PAD_H_
#define MIRRORFLOW_OPS_MIRROR_PAD_H_

#include <string>

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

struct MirrorPadOptions {
  std::string mode = "REFLECT";  // or SYMMETRIC, which repeats the outermost element
};

// MirrorPad: [1,2,3] padded by 2 on both sides is [3,2,1,2,3,2,1], or [2,1,1,2,3,3,2] if SYMMETRIC.
// Shapes:   paddings is [R,2] and must be known when the step is compiled.
// Errors:   InvalidArgument if a padding exceeds the number of elements that can be mirrored.
// Gradient: MirrorPadGrad.
Output MirrorPad(const Scope& scope, Output input, Output paddings,
                 const MirrorPadOptions& options = {});

// MirrorPadGrad: adds each padding element to the element that it mirrors, and removes the padding.
// Gradient: MirrorPad.
Output MirrorPadGrad(const Scope& scope, Output input, Output paddings,
                     const MirrorPadOptions& options = {});

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_MIRROR_PAD_H_
