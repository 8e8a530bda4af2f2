// SPDX-License-Identifier: Apache-2.0
#include "train/layers/transposed_convolution.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ops/conv2d.h"
#include "ops/reshape.h"
#include "train/layers/layer_support.h"

namespace mirrorflow {
namespace layers {
namespace {

// Whether the size of the result is defined. If not, fails the scope.
bool CheckTransposed(const Scope& s, absl::string_view layer, Output x, int rank,
                     absl::string_view padding, Size2D strides) {
  if (!CheckSize(s, layer, "strides", strides.height) ||
      !CheckSize(s, layer, "strides", strides.width)) {
    return false;
  }
  if (padding != "VALID" && padding != "SAME") {
    Fail(s, absl::StrCat(layer, ": padding must be VALID or SAME, got ", padding));
    return false;
  }
  return CheckExamples(s, x, rank, layer);
}

// The number of rows or columns of the result. As in Keras, an output padding also changes the
// size that padding SAME starts from.
int64_t TransposedSize(int64_t in, int64_t kernel, int64_t stride, bool same,
                       std::optional<int64_t> output_padding) {
  if (same && !output_padding) return in * stride;
  if (same) return (in - 1) * stride + kernel % 2 + *output_padding;
  return (in - 1) * stride + kernel + output_padding.value_or(std::max(kernel, stride) - kernel);
}

// x [batch, h, w, in] transposed by a kernel [height, width, filters, in].
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
  // An image of height 1.
  const Output y = Transposed(s, ops::ExpandDims(s, x, 1), ops::ExpandDims(s, kernel.value, 0),
                              filters, {1, kernel_size}, {1, options.strides}, options.padding, {});
  const Output biased = AddBias(s, y, filters, options.use_bias, options.bias_initializer, nullptr);
  return activation(s, ops::Squeeze(s, biased, {.axis = {1}}));
}

Output Conv2DTranspose(const Scope& scope, Output x, int64_t filters, Size2D kernel_size,
                       const Activation& activation, const Conv2DTransposeOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!s.ok() || !CheckSize(s, options.name, "filters", filters) ||
      !CheckSize(s, options.name, "kernel_size", kernel_size.height) ||
      !CheckSize(s, options.name, "kernel_size", kernel_size.width) ||
      !CheckTransposed(s, options.name, x, 4, options.padding, options.strides)) {
    return Output();
  }
  const Variable kernel = CreateVariable(
      s, "kernel", {kernel_size.height, kernel_size.width, filters, s.shape(x).dim(3)},
      options.kernel_initializer);
  const Output y = Transposed(s, x, kernel.value, filters, kernel_size, options.strides,
                              options.padding, options.output_padding);
  return AddBias(s, y, filters, options.use_bias, options.bias_initializer, activation);
}

}  // namespace layers
}  // namespace mirrorflow
