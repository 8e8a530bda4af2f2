// SPDX-License-Identifier: Apache-2.0
//
// Conv2D and its gradients, computed by cuDNN, or by hand-written kernels if cuDNN has no engine.
#include "ops/conv2d.h"

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/libraries/cudnn_convolution.h"
#include "ops/fused_ops.h"
#include "ops/unary.h"
#include "ops/window.h"

namespace mirrorflow {
namespace {

using Geometry = ConvolutionGeometry;

std::string WindowText(const Window& w) {
  return absl::StrCat("Window<", w.in, ", ", w.out, ", ", w.size, ", ", w.stride, ", ", w.before,
                      ", ", w.dilation, ">");
}

// Returns the expression for result element i: `sum` with the node's bias and Relu.
std::string WithEpilogue(const KernelContext& c, const Geometry& g, std::string sum) {
  if (g.bias) absl::StrAppend(&sum, " + Load(a2[i % ", g.out_channels, "])");
  return HasRelu(c) ? absl::StrCat("op::Relu(", sum, ")") : sum;
}

KernelPlan MakeDirect(const KernelContext& c, const Geometry& g, ConvolutionPart part) {
  std::string value = absl::StrCat("Convolution<", g.batch, ", ", g.in_channels, ", ",
                                   g.out_channels, ", ", g.groups, ", ", g.nchw ? "true" : "false",
                                   ", ", WindowText(g.h), ", ", WindowText(g.w), ">::");
  switch (part) {
    case ConvolutionPart::kForward:
      value = WithEpilogue(c, g, value + "Forward(a0, a1, i)");
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
  const ConvolutionShapes shapes = ShapesOf(part, c);
  MF_ASSIGN_OR_RETURN(const Geometry g, ConvolutionOf(c.node(), shapes));
  if (shapes.AnyEmpty()) {
    return MakeIndexed(c, WithEpilogue(c, g, "0"), {.includes = {"math.cuh"}});
  }
  absl::StatusOr<KernelPlan> plan = MakeCudnnConvolution(c, g, part);
  if (absl::IsUnimplemented(plan.status())) plan = MakeDirect(c, g, part);
  if (plan.ok()) plan->flops = shapes.Flops(g.h.size * g.w.size * shapes.filter.dim(2));
  return plan;
}

}  // namespace

void RegisterConv2DCuda(KernelRegistry& kernels) {
  for (const std::string& op : {std::string(ops::kConv2D), ops::Fused(ops::kConv2D),
                                ops::Fused(ops::kConv2D, {.activation = ops::kRelu})}) {
    kernels.Register(op, kGpu, Create<ConvolutionPart::kForward>);
  }
  kernels.Register("Conv2DBackpropInput", kGpu, Create<ConvolutionPart::kBackpropInput>);
  kernels.Register("Conv2DBackpropFilter", kGpu, Create<ConvolutionPart::kBackpropFilter>);
}

}  // namespace mirrorflow
