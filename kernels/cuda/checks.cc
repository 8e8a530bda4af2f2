// SPDX-License-Identifier: Apache-2.0
//
// Ops that check data and fail if it is invalid.
#include "absl/strings/str_cat.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/elementwise.h"

namespace mirrorflow {
namespace {

// Checks that x - x is 0, which is true only if x is finite.
absl::StatusOr<KernelPlan> CreateCheckNumerics(const KernelContext& c) {
  return MakeElementwise(
      c, {.text = "x0 - x0 == 0 ? x0 : x0 - x0",
          .checks = "    if (!(x0 - x0 == 0)) fail(i);\n",
          .error = absl::StrCat(c.attr<std::string>("message"),
                                ": all numbers must be finite, got NaN or infinity at index")});
}

// Creates the kernel of Assert. Unlike on the CPU, the error does not contain the data, because the
// device code cannot format it.
absl::StatusOr<KernelPlan> CreateAssert(const KernelContext& c) {
  return MakeCudaKernel(c, {{.body = "  if (!a0[0]) fail(0);", .grid = {.threads = 1}}},
                        {.error = "assertion failed; expected a true condition (1), got"});
}

}  // namespace

void RegisterChecksCuda(KernelRegistry& kernels) {
  kernels.Register("Assert", kGpu, CreateAssert);
  kernels.Register("CheckNumerics", kGpu, CreateCheckNumerics);
  kernels.Register("CheckNumericsV2", kGpu, CreateCheckNumerics);
}

}  // namespace mirrorflow
