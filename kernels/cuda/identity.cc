// SPDX-License-Identifier: Apache-2.0
//
// IdentityN and Bitcast. Identity and related ops are views, which need no kernel.
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/moves.h"

namespace mirrorflow {
namespace {

// Each output may overwrite its own input, regardless of the order of the stages.
absl::StatusOr<KernelPlan> CreateIdentityN(const KernelContext& c) {
  std::vector<CudaStage> stages;
  CudaKernelOptions options;
  for (int i = 0; i < c.node().num_outputs(); ++i) {
    MF_RETURN_IF_ERROR(CheckMovable(c.output_dtype(i)));
    stages.push_back(IndexedStage(c, i, absl::StrCat("a", i, "[i]")));
    options.in_place.emplace_back(i, i);
  }
  return MakeCudaKernel(c, std::move(stages), std::move(options));
}

// Copies the bytes, in elements of the smaller dtype.
absl::StatusOr<KernelPlan> CreateBitcast(const KernelContext& c) {
  const DataType from = c.input_dtype(0), to = c.output_dtype(0);
  MF_RETURN_IF_ERROR(CheckMovable(from));
  MF_RETURN_IF_ERROR(CheckMovable(to));
  const bool splits = DataTypeSize(to) < DataTypeSize(from);
  const std::string type = CudaType(splits ? to : from);
  const int64_t n = (splits ? c.output_shape(0) : c.input_shape(0)).num_elements();
  return MakeCudaKernel(
      c,
      {{.body = absl::StrCat("  Elementwise<", n, ">(reinterpret_cast<", type,
                             "*>(z0), [&](auto i) {\n    return reinterpret_cast<const ", type,
                             "*>(a0)[i];\n  });"),
        .grid = ElementwiseGrid(n)}},
      {.in_place = {{0, 0}}});
}

}  // namespace

void RegisterIdentityCuda(KernelRegistry& kernels) {
  kernels.Register("Bitcast", kGpu, CreateBitcast);
  kernels.Register("IdentityN", kGpu, CreateIdentityN);
}

}  // namespace mirrorflow
