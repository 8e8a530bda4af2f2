// SPDX-License-Identifier: Apache-2.0
#include "ops/window.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "ops/fused_ops.h"
#include "ops/shape_values.h"

namespace mirrorflow {
namespace {

constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();

std::string ListText(absl::Span<const int64_t> values) {
  return absl::StrCat("[", absl::StrJoin(values, ", "), "]");
}

// Reads `explicit_paddings`, which has two elements for each dimension: the paddings before and
// after it.
absl::Status ReadExplicitPaddings(absl::Span<const int64_t> paddings, WindowAttrs* attrs) {
  if (paddings.size() != 8) {
    return absl::InvalidArgumentError(
        absl::StrCat("explicit_paddings must have two elements for each dimension; expected 8 "
                     "elements, got ",
                     ListText(paddings)));
  }
  for (const int64_t value : paddings) {
    if (value < 0 || value > kLargest) {
      return absl::InvalidArgumentError(
          absl::StrCat("explicit_paddings must be 32-bit integers >= 0, got ", ListText(paddings)));
    }
  }
  for (const int d : {0, attrs->layout.channels}) {
    if (paddings[2 * d] == 0 && paddings[2 * d + 1] == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "explicit_paddings of batch and channels must be 0, got ", ListText(paddings)));
  }
  for (int i = 0; i < 2; ++i) {
    attrs->dims[i].before = paddings[2 * attrs->layout.space[i]];
    attrs->dims[i].after = paddings[2 * attrs->layout.space[i] + 1];
  }
  return absl::OkStatus();
}

// Returns the height and width elements of a list attribute. The list must have one element for
// each of the four image dimensions: 1 for batch and channels, at least 1 for height and width.
absl::StatusOr<std::vector<int64_t>> ReadSpatialList(absl::string_view name,
                                                     absl::Span<const int64_t> values,
                                                     const ImageLayout& layout) {
  if (values.size() != 4) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " must have one element for each dimension; expected 4 elements, got ",
                     ListText(values)));
  }
  for (const int64_t value : values) {
    if (value < 1 || value > kLargest) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " must be positive 32-bit integers, got ", ListText(values)));
    }
  }
  if (values[0] != 1 || values[layout.channels] != 1) {
    return absl::UnimplementedError(
        absl::StrCat(name, " over the batch or channels are not supported; expected ",
                     layout.nchw() ? "[1, 1, …, …]" : "[1, …, …, 1]", ", got ", ListText(values)));
  }
  return std::vector<int64_t>{values[layout.space[0]], values[layout.space[1]]};
}

int64_t GroupsOf(int64_t channels, int64_t of_group) {
  return of_group == 0 ? 1 : std::max<int64_t>(1, channels / of_group);
}

}  // namespace

std::string ImageLayout::Term(absl::string_view batch, absl::string_view channel) const {
  return nchw() ? absl::StrCat(batch, channel, "..") : absl::StrCat(batch, "..", channel);
}

absl::StatusOr<ImageLayout> ReadImageLayout(const Node& node) {
  const std::string& format = node.attr<std::string>("data_format");
  if (format == "NHWC") return ImageLayout{};
  if (format == "NCHW") return ImageLayout{.channels = 1, .space = {2, 3}};
  return absl::UnimplementedError(
      absl::StrCat("data_format is not supported; expected NHWC or NCHW, got ", format));
}

absl::StatusOr<WindowAttrs> ReadWindowAttrs(const Node& node) {
  WindowAttrs attrs;
  MF_ASSIGN_OR_RETURN(attrs.layout, ReadImageLayout(node));
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> strides,
                      ReadSpatialList("strides", node.int_list("strides"), attrs.layout));
  std::vector<int64_t> dilations = {1, 1};
  if (node.has_attr("dilations")) {
    MF_ASSIGN_OR_RETURN(dilations,
                        ReadSpatialList("dilations", node.int_list("dilations"), attrs.layout));
  }
  for (int i = 0; i < 2; ++i) {
    attrs.dims[i].stride = strides[i];
    attrs.dims[i].dilation = dilations[i];
  }
  const std::string& padding = node.attr<std::string>("padding");
  attrs.same_padding = padding == "SAME";
  attrs.explicit_padding = padding == "EXPLICIT";
  if (!node.has_attr("explicit_paddings")) return attrs;
  const std::vector<int64_t> paddings = node.int_list("explicit_paddings");
  if (attrs.explicit_padding) {
    MF_RETURN_IF_ERROR(ReadExplicitPaddings(paddings, &attrs));
  } else if (!paddings.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "explicit_paddings must be empty when padding is ", padding, ", got ", ListText(paddings)));
  }
  return attrs;
}

absl::StatusOr<int64_t> WindowPositions(int64_t in, int64_t size, const WindowAttrs& attrs, int i) {
  const WindowAttrs::Dim& dim = attrs.dims[i];
  if (size == 0) return absl::InvalidArgumentError("the window is empty; expected a size >= 1");
  if (in == kUnknownDim || size == kUnknownDim) return kUnknownDim;
  if (attrs.same_padding) return in == 0 ? 0 : (in - 1) / dim.stride + 1;
  MF_ASSIGN_OR_RETURN(int64_t covers, CheckedMultiply(size - 1, dim.dilation));
  covers += 1;
  const int64_t padded = in + dim.before + dim.after;
  if (padded >= covers) return (padded - covers) / dim.stride + 1;
  // TensorFlow's formula, (padded - covers + stride) / stride, yields no rows for an image that is
  // slightly too small and an error for one that is much too small.
  if (covers - padded <= dim.stride) return 0;
  return absl::InvalidArgumentError(absl::StrCat(
      "the window is larger than the image; expected at most ", padded, ", got ", covers));
}

absl::StatusOr<Shape> FourSizes(const ShapeContext& c, int i) {
  const std::string& name = c.node().op().inputs[i].name;
  MF_ASSIGN_OR_RETURN(Shape sizes, SizesInput(c, i, name));
  if (sizes.unknown_rank()) return Shape::UnknownDims(4);
  if (sizes.rank() == 4) return sizes;
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must have 4 elements, got ", sizes.ToString()));
}

absl::StatusOr<Shape> PooledShape(const Node& node, const Shape& images) {
  MF_ASSIGN_OR_RETURN(const WindowAttrs attrs, ReadWindowAttrs(node));
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> ksize,
                      ReadSpatialList("ksize", node.int_list("ksize"), attrs.layout));
  Shape output = images;
  for (int i = 0; i < 2; ++i) {
    const WindowAttrs::Dim& dim = attrs.dims[i];
    const int64_t in = images.dim(attrs.layout.space[i]);
    // Every window must contain a pixel of the image, because padding is ignored.
    if (std::max(dim.before, dim.after) >= ksize[i] ||
        (attrs.explicit_padding && in == 0 && dim.before + dim.after > 0)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "explicit_paddings must leave an image pixel in every window; expected paddings less "
          "than ksize ",
          ksize[i], " and at least one pixel, got paddings ", dim.before, " and ", dim.after,
          " and size ", in));
    }
    MF_ASSIGN_OR_RETURN(const int64_t size, WindowPositions(in, ksize[i], attrs, i));
    output.set_dim(attrs.layout.space[i], size);
  }
  return output;
}

bool ConvolutionShapes::AnyEmpty() const {
  return images.num_elements() == 0 || filter.num_elements() == 0 || output.num_elements() == 0;
}

int64_t ConvolutionShapes::Flops(int64_t taps) const {
  // Double precision is exact for every count below 2^53, and no product of sizes overflows it.
  const double flops = 2.0 * static_cast<double>(output.num_elements()) * static_cast<double>(taps);
  return static_cast<int64_t>(std::min(flops, 9e18));
}

absl::StatusOr<ConvolutionGeometry> ConvolutionOf(const Node& node,
                                                  const ConvolutionShapes& shapes) {
  MF_ASSIGN_OR_RETURN(const WindowAttrs attrs, ReadWindowAttrs(node));
  const auto& [images, filter, output] = shapes;
  return ConvolutionGeometry{.batch = images.dim(0),
                             .in_channels = images.dim(attrs.layout.channels),
                             .out_channels = output.dim(attrs.layout.channels),
                             .h = WindowOf(attrs, 0, images, output, filter.dim(0)),
                             .w = WindowOf(attrs, 1, images, output, filter.dim(1)),
                             .nchw = attrs.layout.nchw(),
                             .groups = GroupsOf(images.dim(attrs.layout.channels), filter.dim(2)),
                             .bias = node.input_index(ops::kFusedBias) >= 0};
}

}  // namespace mirrorflow
