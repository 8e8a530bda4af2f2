// SPDX-License-Identifier: Apache-2.0
#include "tools/flags/compute_flags.h"

#include <string>

#include "absl/flags/flag.h"
#include "framework/core/status.h"
#include "tools/flags/command_line.h"

ABSL_FLAG(
    std::string, compute_dtype, "float",
    "dtype for computing float matrix products, convolutions and attention: float, or bfloat16 or "
    "half (mixed precision)");
ABSL_FLAG(bool, allow_tf32, false,
          "on GPUs, let float matrix products, convolutions and attention round their operands to "
          "TensorFloat-32");
ABSL_FLAG(
    bool, allow_winograd, true,
    "on CPUs, let 3x3 convolutions and their gradients use Winograd's algorithm, which rounds "
    "differently");
ABSL_FLAG(
    bool, autotune, false,
    "on GPUs, time the algorithms of each matrix product and convolution and use the fastest; "
    "between hosts, time the network and choose the bucket size accordingly");
ABSL_FLAG(
    int64_t, bucket_bytes, 0,
    "maximum size of a gradient bucket, which one all-reduce carries; a larger gradient has a "
    "separate bucket; 0: automatic");

namespace mirrorflow {

absl::StatusOr<CompileOptions> CompileOptionsOfFlags() {
  CompileOptions options;
  const std::string dtype = absl::GetFlag(FLAGS_compute_dtype);
  MF_RETURN_IF_ERROR(CheckChoice("compute_dtype", dtype, {"float", "bfloat16", "half"}));
  MF_ASSIGN_OR_RETURN(options.compute_dtype, ParseDataType(dtype));
  options.kernels.allow_tf32 = absl::GetFlag(FLAGS_allow_tf32);
  options.kernels.allow_winograd = absl::GetFlag(FLAGS_allow_winograd);
  options.kernels.autotune = absl::GetFlag(FLAGS_autotune);
  return options;
}

absl::StatusOr<int64_t> BucketBytesOfFlags() {
  const int64_t bytes = absl::GetFlag(FLAGS_bucket_bytes);
  MF_RETURN_IF_ERROR(CheckFlagRange("bucket_bytes", bytes, 0));
  return bytes;
}

}  // namespace mirrorflow
