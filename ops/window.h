// SPDX-License-Identifier: Apache-2.0
//
// The windows that convolutions and pooling move over images: attributes, output sizes and sharding
// terms for ops, and geometry for kernels.
#ifndef MIRRORFLOW_OPS_WINDOW_H_
#define MIRRORFLOW_OPS_WINDOW_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/core/shape.h"
#include "framework/graph/scope.h"

namespace mirrorflow {

// The indices of the image dimensions; dimension 0 is the batch.
struct ImageLayout {
  int channels = 3;
  int space[2] = {1, 2};  // height, width

  bool nchw() const { return channels == 1; }
  // Returns the images' term in a sharding rule, such as `n..c` or `nc..`. Height and width must
  // not be sharded, because neighbouring windows overlap.
  std::string Term(absl::string_view batch, absl::string_view channel) const;
};

// Reads attribute `data_format`. Returns Unimplemented unless it is NHWC or NCHW.
absl::StatusOr<ImageLayout> ReadImageLayout(const Node& node);

// Strides, dilations and padding of a window.
struct WindowAttrs {
  struct Dim {
    int64_t stride = 1;
    int64_t dilation = 1;
    int64_t before = 0;  // explicit padding before the image
    int64_t after = 0;
  };
  ImageLayout layout;
  bool same_padding = false;
  bool explicit_padding = false;
  Dim dims[2];  // height, width
};

// Reads `data_format`, `strides`, `padding` and, if the op has them, `explicit_paddings` and
// `dilations`. Returns InvalidArgument for invalid attributes, and Unimplemented for windows over
// the batch or channels.
absl::StatusOr<WindowAttrs> ReadWindowAttrs(const Node& node);

// Returns the number of positions of a window of extent `size` along `in` rows (if i is 0) or
// columns (if i is 1), or an unknown number if `in` or `size` is unknown. Returns InvalidArgument
// if the window is empty or too large.
absl::StatusOr<int64_t> WindowPositions(int64_t in, int64_t size, const WindowAttrs& attrs, int i);

// Returns input i, a vector of four sizes, as a shape.
absl::StatusOr<Shape> FourSizes(const ShapeContext& c, int i);

// Returns the shape of pooled images; attribute `ksize` is the window size.
absl::StatusOr<Shape> PooledShape(const Node& node, const Shape& images);

// Builds a convolution or pool; sets the attributes that its op has.
template <typename Options>
Output FinishWindow(NodeBuilder builder, absl::Span<const int64_t> strides,
                    absl::string_view padding, const Options& options) {
  if constexpr (requires { options.use_cudnn_on_gpu; }) {
    builder.Attr("use_cudnn_on_gpu", options.use_cudnn_on_gpu);
  }
  if constexpr (requires { options.explicit_paddings; }) {
    builder.Attr("explicit_paddings", AttrValue::List<int64_t>(options.explicit_paddings));
  }
  if constexpr (requires { options.dilations; }) {
    builder.Attr("dilations", AttrValue::List<int64_t>(options.dilations));
  }
  return std::move(builder)
      .Attr("strides", AttrValue::List(strides))
      .Attr("padding", padding)
      .Attr("data_format", options.data_format)
      .One();
}

// One dimension of a window. Tap `i` of the window at position `o` reads input o * stride - before
// + i * dilation; inputs outside the image are padding.
struct Window {
  int64_t in = 0;
  int64_t out = 0;
  int64_t size = 0;
  int64_t stride = 1;
  int64_t before = 0;  // padding before the image
  int64_t dilation = 1;

  int64_t start(int64_t o) const { return o * stride - before; }
  // Returns the number of inputs from the first to the last tap.
  int64_t extent() const { return (size - 1) * dilation + 1; }
  // Returns how much padding the last position needs after the image.
  int64_t after() const { return std::max<int64_t>(start(out - 1) + extent() - in, 0); }
  // Position `o` covers the inputs [first(o), last(o)) if the window is not dilated.
  int64_t first(int64_t o) const { return std::max<int64_t>(start(o), 0); }
  int64_t last(int64_t o) const { return std::min(start(o) + size, in); }
  // The taps [first_tap(o), last_tap(o)) of position `o` are inside the image.
  int64_t first_tap(int64_t o) const {
    return start(o) >= 0 ? 0 : (dilation - 1 - start(o)) / dilation;
  }
  int64_t last_tap(int64_t o) const {
    return start(o) >= in ? 0 : std::min(size, (in - start(o) + dilation - 1) / dilation);
  }
  // Returns whether every position covers at least one input.
  bool covers_inputs() const { return start(0) + extent() > 0 && start(out - 1) < in; }
  // Returns the window restricted to `count` positions, starting at position `o`. Its inputs begin
  // at first(o). Requires covers_inputs().
  Window At(int64_t o, int64_t count) const {
    Window part = *this;
    part.out = count;
    part.before = first(o) - start(o);
    part.in = std::min(start(o + count - 1) + extent(), in) - first(o);
    return part;
  }
};

// Returns the window along height (i is 0) or width (1). `size` is the window's extent along that
// axis.
inline Window WindowOf(const WindowAttrs& attrs, int i, const Shape& images, const Shape& output,
                       int64_t size) {
  const WindowAttrs::Dim& dim = attrs.dims[i];
  const int d = attrs.layout.space[i];
  Window window = {.in = images.dim(d),
                   .out = output.dim(d),
                   .size = size,
                   .stride = dim.stride,
                   .before = dim.before,
                   .dilation = dim.dilation};
  // TensorFlow's SAME adds the odd padding element after the image.
  if (attrs.same_padding) window.before = window.after() / 2;
  return window;
}

// A convolution and its gradients with respect to the images and the filter.
enum class ConvolutionPart { kForward, kBackpropInput, kBackpropFilter };

// The shapes of images, filter and output of a convolution on one replica.
struct ConvolutionShapes {
  const Shape &images, &filter, &output;

  bool AnyEmpty() const;
  // Returns the floating-point operations of a convolution that multiplies `taps` filter elements
  // per output element. As is customary, windows that overlap the padding count in full.
  int64_t Flops(int64_t taps) const;
};

// Returns the local shapes of a convolution or of one of its gradients. For a gradient, the shape
// that it computes is taken from its output, because its static input holds the global sizes.
template <typename Context>
ConvolutionShapes ShapesOf(ConvolutionPart part, const Context& c) {
  const bool is_input_gradient = part == ConvolutionPart::kBackpropInput;
  const bool is_filter_gradient = part == ConvolutionPart::kBackpropFilter;
  return {is_input_gradient ? c.output_shape(0) : c.input_shape(0),
          is_filter_gradient ? c.output_shape(0) : c.input_shape(1),
          is_input_gradient || is_filter_gradient ? c.input_shape(2) : c.output_shape(0)};
}

// Images [batch, h.in, w.in, in_channels], filter [h.size, w.size, in_channels, out_channels],
// output [batch, h.out, w.out, out_channels]; with `nchw`, channels of images and output come
// before height and width. With several groups, the filter has the input channels of one group,
// [h.size, w.size, in_channels / groups, out_channels], and output channels are ordered by group.
struct ConvolutionGeometry {
  int64_t batch;
  int64_t in_channels;
  int64_t out_channels;
  Window h;
  Window w;
  bool nchw = false;
  int64_t groups = 1;
  bool bias = false;  // input 2 [out_channels] is added to every pixel of the output
  // The stride between output pixels, in elements. It exceeds `out_channels` if the output is a
  // slice of the channels of larger images. NHWC only.
  int64_t out_stride = out_channels;
  // The number of output channels of the filter. The convolution computes `out_channels` of them,
  // starting at `first_channel`.
  int64_t filter_channels = out_channels;
  int64_t first_channel = 0;
};

// Reads the geometry of a Conv2D or of one of its gradient ops.
absl::StatusOr<ConvolutionGeometry> ConvolutionOf(const Node& node,
                                                  const ConvolutionShapes& shapes);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_WINDOW_H_
