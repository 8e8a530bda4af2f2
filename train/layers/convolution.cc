// SPDX-License-Identifier: Apache-2.0
#include "train/layers/convolution.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/conv2d.h"
#include "ops/depthwise_conv2d.h"
#include "ops/reshape.h"
#include "ops/slice.h"
#include "ops/strided_slice.h"
#include "ops/transpose.h"
#include "train/layers/layer_support.h"

namespace mirrorflow {
namespace layers {
namespace {

// How a kernel moves along the depth: to `positions` positions, with `before` zeros of padding at
// the front and `after` zeros at the back.
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

// Returns x[:, begin:begin + stride * count:stride].
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

// Convolves each channel of x [batch, h, w, in] with a kernel [height, width, in,
// depth_multiplier]. The kernel is a variable named `kernel_name`. Fails the scope if an option is
// invalid.
template <typename Options>
Output Depthwise(const Scope& s, Output x, Size2D kernel_size, const char* kernel_name,
                 const Options& options) {
  if (!CheckSize(s, options.name, "kernel_size", kernel_size) ||
      !CheckSize(s, options.name, "depth_multiplier", options.depth_multiplier)) {
    return Output();
  }
  const std::optional<int64_t> in = InputDepth(s, x, 4, options.name);
  if (!in) return Output();
  const Variable kernel = CreateVariable(
      s, kernel_name, {kernel_size.height, kernel_size.width, *in, options.depth_multiplier},
      options.depthwise_initializer);
  const Output y =
      ops::DepthwiseConv2dNative(s, x, kernel.value, OfImages(options.strides), options.padding,
                                 {.dilations = OfImages(options.dilation_rate)});
  return UnlessEmpty(s, x, y, kernel_size, options.dilation_rate);
}

// Returns whether the result has a defined size. If not, fails the scope.
bool CheckTransposed(const Scope& s, absl::string_view layer, Output x, int rank,
                     absl::string_view padding, Size2D strides) {
  if (!CheckSize(s, layer, "strides", strides)) return false;
  if (padding != "VALID" && padding != "SAME") {
    Fail(s, layer, ": unknown padding; expected VALID or SAME, got ", padding);
    return false;
  }
  return CheckExamples(s, x, rank, layer);
}

// Returns how many rows or columns the result has. With padding SAME, the size that output_padding
// is added to differs from the size without output_padding, as in Keras.
int64_t TransposedSize(int64_t in, int64_t kernel, int64_t stride, bool same,
                       std::optional<int64_t> output_padding) {
  if (same && !output_padding) return in * stride;
  if (same) return (in - 1) * stride + kernel % 2 + *output_padding;
  return (in - 1) * stride + kernel + output_padding.value_or(std::max(kernel, stride) - kernel);
}

// Computes the transposed convolution of x [batch, h, w, in] with a kernel [height, width, filters,
// in].
Output Transposed(const Scope& s, Output x, Output kernel, int64_t filters, Size2D kernel_size,
                  Size2D strides, absl::string_view padding,
                  const std::optional<Size2D>& output_padding) {
  const Shape& shape = s.shape(x);
  const bool same = padding == "SAME";
  std::optional<int64_t> more_rows, more_columns;
  if (output_padding) more_rows = output_padding->height, more_columns = output_padding->width;
  const Output sizes = BatchShape(
      s, x,
      {TransposedSize(shape.dim(1), kernel_size.height, strides.height, same, more_rows),
       TransposedSize(shape.dim(2), kernel_size.width, strides.width, same, more_columns),
       filters});
  return ops::Conv2DBackpropInput(s, sizes, kernel, x, OfImages(strides), padding);
}

}  // namespace

Output Conv1D(const Scope& scope, Output x, int64_t filters, int64_t kernel_size,
              const Activation& activation, const Conv1DOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!s.ok() || !CheckSize(s, options.name, "filters", filters) ||
      !CheckSize(s, options.name, "kernel_size", kernel_size)) {
    return Output();
  }
  const std::optional<int64_t> in = GroupDepth(s, x, 3, options.groups, options.name);
  if (!in) return Output();
  const Variable kernel =
      CreateVariable(s, "kernel", {kernel_size, *in, filters}, options.kernel_initializer);
  // Convolve as an image of height 1.
  ops::Conv2DOptions conv{.dilations = {1, 1, options.dilation_rate, 1}};
  const bool causal = options.padding == "CAUSAL";
  if (causal) {
    conv.explicit_paddings = {0, 0, 0, 0, options.dilation_rate * (kernel_size - 1), 0, 0, 0};
  }
  const int64_t strides[] = {1, 1, options.strides, 1};
  const Output image = ops::ExpandDims(s, x, 1);
  const Output product = ops::Conv2D(s, image, ops::ExpandDims(s, kernel.value, 0), strides,
                                     causal ? "EXPLICIT" : options.padding, conv);
  const Output y =
      AddBias(s, UnlessEmpty(s, image, product, {1, kernel_size}, {1, options.dilation_rate}),
              filters, options, nullptr);
  return activation(s, ops::Squeeze(s, y, {.axis = {1}}));
}

Output Conv2D(const Scope& scope, Output x, int64_t filters, Size2D kernel_size,
              const Activation& activation, const Conv2DOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!s.ok() || !CheckSize(s, options.name, "filters", filters) ||
      !CheckSize(s, options.name, "kernel_size", kernel_size)) {
    return Output();
  }
  const std::optional<int64_t> in = GroupDepth(s, x, 4, options.groups, options.name);
  if (!in) return Output();
  const Variable kernel =
      CreateVariable(s, "kernel", {kernel_size.height, kernel_size.width, *in, filters},
                     options.kernel_initializer);
  const Output y = ops::Conv2D(s, x, kernel.value, OfImages(options.strides), options.padding,
                               {.dilations = OfImages(options.dilation_rate)});
  return AddBias(s, UnlessEmpty(s, x, y, kernel_size, options.dilation_rate), filters, options,
                 activation);
}

Output Conv3D(const Scope& scope, Output x, int64_t filters, Size3D kernel_size,
              const Activation& activation, const Conv3DOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!CheckConv3D(s, x, filters, kernel_size, options)) return Output();
  const Shape shape = s.shape(x);
  const int64_t depth = kernel_size.depth, in = shape.dim(4);
  const DepthWindow window = DepthWindowOf(shape.dim(1), depth, options.strides.depth,
                                           options.dilation_rate.depth, options.padding == "SAME");
  if (window.positions < 1) {
    return Fail(s, options.name, ": the kernel is deeper than the input; expected at most ",
                shape.dim(1), ", got ", (depth - 1) * options.dilation_rate.depth + 1);
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
              filters, options, nullptr);
  if (!y.valid()) return Output();
  const Shape& made = s.shape(y);
  return activation(
      s, ops::Reshape(s, y,
                      Shape({kUnknownDim, window.positions, made.dim(1), made.dim(2), filters})));
}

Output DepthwiseConv2D(const Scope& scope, Output x, Size2D kernel_size,
                       const Activation& activation, const DepthwiseConv2DOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!s.ok()) return Output();
  const Output y = Depthwise(s, x, kernel_size, "kernel", options);
  if (!y.valid()) return Output();
  return AddBias(s, y, s.shape(x).dim(3) * options.depth_multiplier, options, activation);
}

Output SeparableConv2D(const Scope& scope, Output x, int64_t filters, Size2D kernel_size,
                       const Activation& activation, const SeparableConv2DOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!s.ok() || !CheckSize(s, options.name, "filters", filters)) return Output();
  const Output each = Depthwise(s, x, kernel_size, "depthwise_kernel", options);
  if (!each.valid()) return Output();
  const Variable pointwise = CreateVariable(
      s, "pointwise_kernel", {1, 1, s.shape(x).dim(3) * options.depth_multiplier, filters},
      options.pointwise_initializer);
  return AddBias(s, ops::Conv2D(s, each, pointwise.value, OfImages(1), "VALID"), filters, options,
                 activation);
}

Output Conv1DTranspose(const Scope& scope, Output x, int64_t filters, int64_t kernel_size,
                       const Activation& activation, const Conv1DTransposeOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!s.ok() || !CheckSize(s, options.name, "filters", filters) ||
      !CheckSize(s, options.name, "kernel_size", kernel_size) ||
      !CheckTransposed(s, options.name, x, 3, options.padding, options.strides)) {
    return Output();
  }
  const Variable kernel = CreateVariable(s, "kernel", {kernel_size, filters, s.shape(x).dim(2)},
                                         options.kernel_initializer);
  // Convolve as an image of height 1.
  const Output y = Transposed(s, ops::ExpandDims(s, x, 1), ops::ExpandDims(s, kernel.value, 0),
                              filters, {1, kernel_size}, {1, options.strides}, options.padding, {});
  const Output biased = AddBias(s, y, filters, options, nullptr);
  return activation(s, ops::Squeeze(s, biased, {.axis = {1}}));
}

Output Conv2DTranspose(const Scope& scope, Output x, int64_t filters, Size2D kernel_size,
                       const Activation& activation, const Conv2DTransposeOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!s.ok() || !CheckSize(s, options.name, "filters", filters) ||
      !CheckSize(s, options.name, "kernel_size", kernel_size) ||
      !CheckTransposed(s, options.name, x, 4, options.padding, options.strides)) {
    return Output();
  }
  const Variable kernel = CreateVariable(
      s, "kernel", {kernel_size.height, kernel_size.width, filters, s.shape(x).dim(3)},
      options.kernel_initializer);
  const Output y = Transposed(s, x, kernel.value, filters, kernel_size, options.strides,
                              options.padding, options.output_padding);
  return AddBias(s, y, filters, options, activation);
}

}  // namespace layers
}  // namespace mirrorflow
