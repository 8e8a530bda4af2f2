// SPDX-License-Identifier: Apache-2.0
//
// Flags of programs that compute: precision and choice of kernels.
#ifndef MIRRORFLOW_TOOLS_FLAGS_COMPUTE_FLAGS_H_
#define MIRRORFLOW_TOOLS_FLAGS_COMPUTE_FLAGS_H_

#include "absl/status/statusor.h"
#include "framework/compiler/compilation.h"

namespace mirrorflow {

// Returns the options that --compute_dtype, --allow_tf32 and --autotune set, or InvalidArgument,
// naming the flag, for a value that is not allowed.
absl::StatusOr<CompileOptions> CompileOptionsOfFlags();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_FLAGS_COMPUTE_FLAGS_H_
