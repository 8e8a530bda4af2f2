// SPDX-License-Identifier: Apache-2.0
#include "train/layers/convolution_3d.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/conv2d.h"
#include "ops/reshape.h"
#include "ops/slice.h"
#include "ops/strided_slice.h"
#include "ops/transpose.h"
#include "train/layers/layer_support.h"

namespace mirrorflow {
namespace layers {
namespace {

// How a kernel moves along the depth: it sees `positions` windows of the depth that has `before`
// zeros before and `after` zeros after it.
struct DepthWindow {
  int64_t positions, before, after;
};

DepthWindow DepthWindowOf(int64_t in, int64_t kernel, int64_t stride, int64_t dilation, bool same) {
  const int64_t reach = (kernel - 1) * dilation + 1;
  if (!same) return {in < reach ? 0 : (in - reach) / stride + 1, 0, 0};
  const int64_t positions = (in + stride - 1) / stride;
  const int64_t padding = std::max<int64_t>(0, (positions - 1) * stride + reach - in);
  return {positions, padding / 2, padding - padding / 2};
}

// x[:, begin:begin + stride * count:stride]
Output DepthSlices(const Scope& s, Output x, int64_t begin, int64_t count, int64_t stride) {
  return ops::StridedSlice(s, x, ops::VectorConst(s, {0, begin}),
                           ops::VectorConst(s, {0, begin + (count - 1) * stride + 1}),
                           ops::VectorConst(s, {1, stride}), {.begin_mask = 1, .end_mask = 1});
}

bool CheckConv3D(const Scope& s, Output x, int64_t filters, Size3D kernel_size,
                 const Conv3DOptions& options) {
  if (!s.ok() || !CheckSize(s, options.name, "filters", filters)) return false;
  for (const int64_t size : {kernel_size.depth, kernel_size.height, kernel_size.width}) {
    if (!CheckSize(s, options.name, "kernel_size", size)) return false;
  }
  if (!CheckSize(s, options.name, "strides", options.strides.depth) ||
      !CheckSize(s, options.name, "dilation_rate", options.dilation_rate.depth)) {
    return false;
  }
  return CheckExamples(s, x, 5, options.name);
}

}  // namespace

Output Conv3D(const Scope& scope, Output x, int64_t filters, Size3D kernel_size,
              const Activation& activation, const Conv3DOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!CheckConv3D(s, x, filters, kernel_size, options)) return Output();
  const Shape shape = s.shape(x);
  const int64_t depth = kernel_size.depth, in = shape.dim(4);
  const DepthWindow window = DepthWindowOf(shape.dim(1), depth, options.strides.depth,
                                           options.dilation_rate.depth, options.padding == "SAME");
  if (window.positions < 1) {
    return Fail(s, absl::StrCat(options.name, ": the window is deeper than the input; expected at ",
                                "most ", shape.dim(1), ", got ",
                                (depth - 1) * options.dilation_rate.depth + 1));
  }
  const Variable kernel =
      CreateVariable(s, "kernel", {depth, kernel_size.height, kernel_size.width, in, filters},
                     options.kernel_initializer);
  if (window.before + window.after > 0) {
    const auto before = static_cast<int32_t>(window.before);
    const auto after = static_cast<int32_t>(window.after);
    x = ops::Pad(
        s, x, ops::Const(s, Tensor::Of<int32_t>({5, 2}, {0, 0, before, after, 0, 0, 0, 0, 0, 0})));
  }
  std::vector<Output> slices;
  for (int64_t i = 0; i < depth; ++i) {
    slices.push_back(DepthSlices(s, x, i * options.dilation_rate.depth, window.positions,
                                 options.strides.depth));
  }
  const Output stacked = slices.size() == 1 ? slices[0] : ops::ConcatV2(s, slices, 4);
  const Output images =
      ops::Reshape(s, stacked, Shape({kUnknownDim, shape.dim(2), shape.dim(3), depth * in}));
  const Output filter =
      ops::Reshape(s, ops::Transpose(s, kernel.value, {1, 2, 0, 3, 4}),
                   Shape({kernel_size.height, kernel_size.width, depth * in, filters}));
  const Size2D dilation = {options.dilation_rate.height, options.dilation_rate.width};
  const Output product =
      ops::Conv2D(s, images, filter, OfImages({options.strides.height, options.strides.width}),
                  options.padding, {.dilations = OfImages(dilation)});
  const Output y =
      AddBias(s, UnlessEmpty(s, images, product, {kernel_size.height, kernel_size.width}, dilation),
              filters, options.use_bias, options.bias_initializer, nullptr);
  if (!y.valid()) return Output();
  const Shape& made = s.shape(y);
  return activation(
      s, ops::Reshape(s, y,
                      Shape({kUnknownDim, window.positions, made.dim(1), made.dim(2), filters})));
}

}  // namespace layers
}  // namespace mirrorflow
