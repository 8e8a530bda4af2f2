// SPDX-License-Identifier: Apache-2.0
//
// DepthwiseConv2dNative and its gradients, computed directly from their definition. The sums are
// short, except in the filter's gradient, where they are divided into parts.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/elementwise.h"
#include "ops/window.h"

namespace mirrorflow {
namespace {

constexpr char kCode[] = "depthwise_conv2d.cuh";

// Returns the window type for height (i = 0) or width (i = 1).
std::string WindowText(const WindowAttrs& attrs, int i, const ConvolutionShapes& shapes) {
  const Window w = WindowOf(attrs, i, shapes.images, shapes.output, shapes.filter.dim(i));
  return absl::StrCat("depthwise::Window<", w.in, ", ", w.out, ", ", w.size, ", ", w.stride, ", ",
                      w.before, ", ", w.dilation, ">");
}

// Returns the declaration of the geometry, as `G`.
std::string GeometryText(const WindowAttrs& attrs, const ConvolutionShapes& shapes) {
  return absl::StrCat("  using G = depthwise::Geometry<", WindowText(attrs, 0, shapes), ",\n      ",
                      WindowText(attrs, 1, shapes), ", ", attrs.layout.nchw() ? "true" : "false",
                      ", ", shapes.images.dim(0), ", ", shapes.filter.dim(2), ", ",
                      shapes.filter.dim(3), ">;\n");
}

// Makes a kernel that computes `value` for each output element i.
KernelPlan MakeOfEach(const KernelContext& c, absl::string_view geometry, absl::string_view value) {
  CudaStage stage = IndexedStage(c, 0, value);
  stage.body = absl::StrCat(geometry, stage.body);
  return MakeCudaKernel(c, {std::move(stage)}, {.includes = {kCode}});
}

// Describes how the work on the filter's gradient is divided; see FilterGradient in
// depthwise_conv2d.cuh.
struct FilterGrid {
  int64_t lanes;  // channels per block
  int64_t taps;   // taps per block, in one row of the filter
  int64_t parts;  // number of parts of the output positions
  CudaGrid grid;
};

FilterGrid FilterGridOf(const ConvolutionShapes& shapes, const ImageLayout& layout) {
  constexpr int64_t kMaxLanes = 32, kMaxTaps = 8, kMaxParts = 1024;
  constexpr int64_t kEnoughBlocks = 1024;       // to fill a GPU
  constexpr int64_t kPositionsOfOneThread = 8;  // the minimum
  const int64_t channels = shapes.output.dim(layout.channels);
  FilterGrid division{.lanes = 1, .taps = std::min(shapes.filter.dim(1), kMaxTaps)};
  // Neighbouring threads work on adjacent elements: on channels, or on positions if
  // positions are adjacent.
  if (!layout.nchw()) {
    while (division.lanes < std::min(channels, kMaxLanes)) division.lanes *= 2;
  }
  CudaGrid& grid = division.grid;
  grid.x = static_cast<unsigned int>(DivideUp(channels, division.lanes));
  grid.y = static_cast<unsigned int>(shapes.filter.dim(0) *
                                     DivideUp(shapes.filter.dim(1), division.taps));
  const int64_t positions = shapes.output.dim(0) * shapes.output.dim(layout.space[0]) *
                            shapes.output.dim(layout.space[1]);
  const int64_t max_parts =
      DivideUp(positions, grid.threads / division.lanes * kPositionsOfOneThread);
  division.parts = DivideUp(kEnoughBlocks, int64_t{grid.x} * grid.y);
  division.parts =
      std::clamp<int64_t>(division.parts, 1, std::clamp<int64_t>(max_parts, 1, kMaxParts));
  grid.z = static_cast<unsigned int>(division.parts);
  return division;
}

KernelPlan MakeFilterGradient(const KernelContext& c, const ConvolutionShapes& shapes,
                              const WindowAttrs& attrs) {
  const int64_t n = shapes.filter.num_elements();
  if (n == 0) return MakeCudaKernel(c, {});
  const FilterGrid division = FilterGridOf(shapes, attrs.layout);
  const DataType dtype = c.output_dtype(0);
  const std::string value = CudaValueType(dtype);
  const bool one_part = division.parts == 1;
  const std::string parts = absl::StrCat("reinterpret_cast<", value, "*>(scratch)");
  std::vector<CudaStage> stages;
  stages.push_back(
      {.body = absl::StrCat(GeometryText(attrs, shapes), "  depthwise::FilterGradient<G, ",
                            division.lanes, ", ", division.taps, ", ", division.parts, ">(a0, a2, ",
                            one_part ? "z0" : parts, ");"),
       .grid = division.grid});
  if (one_part) return MakeCudaKernel(c, std::move(stages), {.includes = {kCode}});
  const CudaGrid grid;
  stages.push_back({.body = absl::StrCat("  depthwise::AddParts<", n, ", ", division.parts, ">(",
                                         parts, ", z0);"),
                    .grid = {.x = static_cast<unsigned int>(DivideUp(n, grid.threads / 32))}});
  const int64_t value_size = dtype == DT_DOUBLE ? 8 : 4;
  return MakeCudaKernel(c, std::move(stages),
                        {.includes = {kCode}, .scratch_bytes = n * division.parts * value_size});
}

template <ConvolutionPart part>
absl::StatusOr<KernelPlan> Create(const KernelContext& c) {
  const ConvolutionShapes shapes = ShapesOf(part, c);
  MF_ASSIGN_OR_RETURN(const WindowAttrs attrs, ReadWindowAttrs(c.node()));
  const auto plan = [&] {
    switch (part) {
      case ConvolutionPart::kForward:
        return MakeOfEach(c, GeometryText(attrs, shapes), "depthwise::Forward<G>(a0, a1, i)");
      case ConvolutionPart::kBackpropInput:
        return MakeOfEach(c, GeometryText(attrs, shapes), "depthwise::ImageGradient<G>(a1, a2, i)");
      case ConvolutionPart::kBackpropFilter:
        return MakeFilterGradient(c, shapes, attrs);
    }
  };
  KernelPlan made = plan();
  made.flops = shapes.Flops(shapes.filter.dim(0) * shapes.filter.dim(1));
  return made;
}

}  // namespace

void RegisterDepthwiseConv2dCuda(KernelRegistry& kernels) {
  kernels.Register("DepthwiseConv2dNative", kGpu, Create<ConvolutionPart::kForward>);
  kernels.Register("DepthwiseConv2dNativeBackpropFilter", kGpu,
                   Create<ConvolutionPart::kBackpropFilter>);
  kernels.Register("DepthwiseConv2dNativeBackpropInput", kGpu,
                   Create<ConvolutionPart::kBackpropInput>);
}

}  // namespace mirrorflow
