// SPDX-License-Identifier: Apache-2.0
//
// Conv2D and its gradients: by cuDNN, or by our own kernels where it has no engine.
#include "ops/conv2d.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/libraries/cudnn_convolution.h"
#include "ops/convolution.h"
#include "ops/fused_ops.h"

namespace mirrorflow {
namespace {

using Geometry = ConvolutionGeometry;

std::string WindowText(const Window& w) {
  return absl::StrCat("Window<", w.in, ", ", w.out, ", ", w.size, ", ", w.stride, ", ", w.before,
                      ", ", w.dilation, ">");
}

KernelPlan MakeDirect(const KernelContext& c, const Geometry& g, ConvolutionPart part) {
  std::string value = absl::StrCat("Convolution<", g.batch, ", ", g.in_channels, ", ",
                                   g.out_channels, ", ", g.groups, ", ", g.nchw ? "true" : "false",
                                   ", ", WindowText(g.h), ", ", WindowText(g.w), ">::");
  switch (part) {
    case ConvolutionPart::kForward:
      absl::StrAppend(&value, "Forward(a0, a1, i)");
      if (g.bias) absl::StrAppend(&value, " + Load(a2[i % ", g.out_channels, "])");
      if (HasRelu(c)) value = absl::StrCat("op::Relu(", value, ")");
      break;
    case ConvolutionPart::kBackpropInput:
      absl::StrAppend(&value, "BackpropInput(a1, a2, i)");
      break;
    case ConvolutionPart::kBackpropFilter:
      absl::StrAppend(&value, "BackpropFilter(a0, a2, i)");
      break;
  }
  return MakeIndexed(c, value, {.includes = {"conv.cuh", "math.cuh"}});
}

template <ConvolutionPart part>
absl::StatusOr<KernelPlan> Create(const KernelContext& c) {
  constexpr bool kToInput = part == ConvolutionPart::kBackpropInput;
  constexpr bool kToFilter = part == ConvolutionPart::kBackpropFilter;
  // The sizes in a static input are global; the shape of the output is this replica's.
  const Shape& images = kToInput ? c.output_shape(0) : c.input_shape(0);
  const Shape& filter = kToFilter ? c.output_shape(0) : c.input_shape(1);
  const Shape& output = kToInput || kToFilter ? c.input_shape(2) : c.output_shape(0);
  MF_ASSIGN_OR_RETURN(const Geometry g, ConvolutionOf(c.node(), images, filter, output));
  if (images.num_elements() == 0 || filter.num_elements() == 0 || output.num_elements() == 0) {
    const std::string bias = absl::StrCat("Load(a2[i % ", g.out_channels, "])");
    return MakeIndexed(c,
                       !g.bias      ? "0"
                       : HasRelu(c) ? absl::StrCat("op::Relu(", bias, ")")
                                    : bias,
                       {.includes = {"math.cuh"}});
  }
  absl::StatusOr<KernelPlan> plan = MakeCudnnConvolution(c, g, part);
  if (absl::IsUnimplemented(plan.status())) plan = MakeDirect(c, g, part);
  // Windows that hang over the edge count in full, as is customary. Computed in double precision,
  // which is exact below 2^53 and cannot overflow here.
  const double flops = 2.0 * output.num_elements() * g.h.size * g.w.size * filter.dim(2);
  if (plan.ok()) plan->flops = static_cast<int64_t>(std::min(flops, 9e18));
  return plan;
}

}  // namespace

void RegisterConv2DCuda(KernelRegistry& kernels) {
  for (const std::string& op : {std::string(ops::kConv2D), ops::WithBias(ops::kConv2D),
                                ops::WithBiasAndRelu(ops::kConv2D)}) {
    kernels.Register(op, kGpu, Create<ConvolutionPart::kForward>);
  }
  kernels.Register("Conv2DBackpropInput", kGpu, Create<ConvolutionPart::kBackpropInput>);
  kernels.Register("Conv2DBackpropFilter", kGpu, Create<ConvolutionPart::kBackpropFilter>);
}

}  // namespace mirrorflow
