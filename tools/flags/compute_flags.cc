// SPDX-License-Identifier: Apache-2.0
#include "tools/flags/compute_flags.h"

#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"

ABSL_FLAG(std::string, compute_dtype, "float",
          "dtype in which matrix products, convolutions and attention of floats compute: float, or "
          "bfloat16 (mixed precision)");
ABSL_FLAG(bool, allow_tf32, false,
          "on GPUs, let matrix products, convolutions and attention of floats round their "
          "operands to TensorFloat-32");
ABSL_FLAG(
    bool, autotune, false,
    "on GPUs, time the algorithms of each matrix product and convolution and use the fastest");

namespace mirrorflow {

absl::StatusOr<CompileOptions> CompileOptionsOfFlags() {
  CompileOptions options;
  const std::string dtype = absl::GetFlag(FLAGS_compute_dtype);
  if (dtype != "float" && dtype != "bfloat16") {
    return absl::InvalidArgumentError(absl::StrCat(
        "--compute_dtype: unknown; expected one of float, bfloat16, got '", dtype, "'"));
  }
  options.compute_dtype = dtype == "float" ? DT_FLOAT : DT_BFLOAT16;
  options.kernels.allow_tf32 = absl::GetFlag(FLAGS_allow_tf32);
  options.kernels.autotune = absl::GetFlag(FLAGS_autotune);
  return options;
}

}  // namespace mirrorflow
