// SPDX-License-Identifier: Apache-2.0
//
// BiasAdd; its gradient is a reduction.
#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/elementwise.h"

namespace mirrorflow {
namespace {

absl::StatusOr<KernelPlan> CreateBiasAdd(const KernelContext& c) {
  const Shape& out = c.output_shape(0);
  Shape bias = c.input_shape(1);
  if (c.attr<std::string>("data_format") == "NCHW") {
    for (int d = 2; d < out.rank(); ++d) bias.AddDim(1);
  }
  return MakeIndexed(
      c, absl::StrCat("op::Add(Load(a0[i]), Load(a1[", BroadcastText("i", out, bias), "]))"),
      {.includes = {"math.cuh"}, .in_place = {{0, 0}}});
}

}  // namespace

void RegisterBiasAddCuda(KernelRegistry& kernels) {
  kernels.Register("BiasAdd", kGpu, CreateBiasAdd);
}

}  // namespace mirrorflow
