// SPDX-License-Identifier: Apache-2.0
//
// BiasAdd. Its gradient is a reduction; see reduction.cc.
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/elementwise.h"

namespace mirrorflow {
namespace {

absl::StatusOr<KernelPlan> CreateBiasAdd(const KernelContext& c) {
  const Shape& out = c.output_shape(0);
  Shape bias = c.input_shape(1);
  if (c.attr<std::string>("data_format") == "NCHW") {
    for (int d = 2; d < out.rank(); ++d) bias.AddDim(1);
  }
  const Shape shapes[] = {out, bias};
  return MakeElementwise(c, {.text = "op::Add(x0, x1)"}, shapes);
}

}  // namespace

void RegisterBiasAddCuda(KernelRegistry& kernels) {
  kernels.Register("BiasAdd", kGpu, CreateBiasAdd);
}

}  // namespace mirrorflow
