// SPDX-License-Identifier: Apache-2.0
//
// The flags of programs that compute, on what precision may be traded for speed.
#ifndef MIRRORFLOW_TOOLS_FLAGS_COMPUTE_FLAGS_H_
#define MIRRORFLOW_TOOLS_FLAGS_COMPUTE_FLAGS_H_

#include "absl/status/statusor.h"
#include "framework/compiler/compilation.h"

namespace mirrorflow {

// --compute_dtype, --allow_tf32 and --autotune. InvalidArgument that names the flag if one has a
// value that it cannot have.
absl::StatusOr<CompileOptions> CompileOptionsOfFlags();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_FLAGS_COMPUTE_FLAGS_H_
