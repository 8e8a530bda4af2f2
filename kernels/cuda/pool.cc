// SPDX-License-Identifier: Apache-2.0
//
// MaxPool, AvgPool, and their gradients.
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/device/cuda_device.h"
#include "ops/window.h"

namespace mirrorflow {
namespace {

// Returns `PoolWindow<…>` of pool.cuh for height (i = 0) or width (i = 1).
std::string WindowText(const Node& node, const WindowAttrs& attrs, int i, const Shape& images,
                       const Shape& pooled) {
  const Window w =
      WindowOf(attrs, i, images, pooled, node.int_list("ksize")[attrs.layout.space[i]]);
  return absl::StrCat("PoolWindow<", w.in, ", ", w.out, ", ", w.size, ", ", w.stride, ", ",
                      w.before, ">");
}

// Makes a kernel that calls `function` of pool.cuh. In NCHW, each channel counts as an image.
absl::StatusOr<KernelPlan> MakePool(const KernelContext& c, absl::string_view function,
                                    const Shape& images, const Shape& pooled,
                                    absl::string_view operands) {
  MF_ASSIGN_OR_RETURN(const WindowAttrs attrs, ReadWindowAttrs(c.node()));
  const bool nchw = attrs.layout.nchw();
  const int64_t count = nchw ? images.dim(0) * images.dim(1) : images.dim(0);
  const int64_t channels = nchw ? 1 : images.dim(3);
  const int64_t n = c.output_shape(0).num_elements();
  constexpr int64_t kThreads = 256;  // as in base.cuh
  return MakeCudaKernel(
      c,
      {{.body = absl::StrCat("  ", function, "<Pool<", count, ", ", channels, ",\n      ",
                             WindowText(c.node(), attrs, 0, images, pooled), ", ",
                             WindowText(c.node(), attrs, 1, images, pooled), ">>(", operands, ");"),
        .grid = {.x = static_cast<unsigned int>(DivideUp(n, kThreads))}}},
      {.includes = {"pool.cuh"}});
}

}  // namespace

void RegisterPoolCuda(KernelRegistry& kernels) {
  kernels.Register("AvgPool", kGpu, [](const KernelContext& c) {
    return MakePool(c, "AvgPool", c.input_shape(0), c.output_shape(0), "a0, z0");
  });
  // Takes the image shape from the output, which is local; the shape in the static input is global.
  kernels.Register("AvgPoolGrad", kGpu, [](const KernelContext& c) {
    return MakePool(c, "AvgPoolGrad", c.output_shape(0), c.input_shape(1), "a1, z0");
  });
  kernels.Register("MaxPool", kGpu, [](const KernelContext& c) {
    return MakePool(c, "MaxPool", c.input_shape(0), c.output_shape(0), "a0, z0");
  });
  kernels.Register("MaxPoolGrad", kGpu, [](const KernelContext& c) {
    return MakePool(c, "MaxPoolGrad", c.output_shape(0), c.input_shape(1), "a0, a1, a2, z0");
  });
  kernels.Register("MaxPoolGradGrad", kGpu, [](const KernelContext& c) {
    return MakePool(c, "MaxPoolGradGrad", c.input_shape(0), c.output_shape(0), "a0, a1, a2, z0");
  });
}

}  // namespace mirrorflow
