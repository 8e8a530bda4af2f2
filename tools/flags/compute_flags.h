// SPDX-License-Identifier: Apache-2.0
//
// Flags for programs that run steps: precision, kernel choice, bucket size.
#ifndef MIRRORFLOW_TOOLS_FLAGS_COMPUTE_FLAGS_H_
#define MIRRORFLOW_TOOLS_FLAGS_COMPUTE_FLAGS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "framework/compiler/compilation.h"

namespace mirrorflow {

// Returns the options that --compute_dtype, --allow_tf32, --allow_winograd and --autotune set, or
// InvalidArgument, naming the flag, if a value is not allowed.
absl::StatusOr<CompileOptions> CompileOptionsOfFlags();

// Returns the value of --bucket_bytes, or InvalidArgument, naming the flag.
absl::StatusOr<int64_t> BucketBytesOfFlags();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_FLAGS_COMPUTE_FLAGS_H_
