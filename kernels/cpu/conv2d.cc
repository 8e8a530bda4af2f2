// SPDX-License-Identifier: Apache-2.0
//
// Conv2D and its gradients on the CPU. oneDNN computes the float convolutions that it supports,
// unless Winograd's algorithm or PackedConvolution is faster. The others run as one matrix product
// per image and channel group; each group is a separate convolution.
//
// Row (y, x) of an image's matrix holds the pixels under the window at (y, x), with shape
// [size_h, size_w, channels] and zeros outside the image.
#include "ops/conv2d.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "Eigen/Core"
#include "framework/core/status.h"
#include "kernels/cpu/bias.h"
#include "kernels/cpu/height_part.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/packed_convolution.h"
#include "kernels/cpu/type_list.h"
#include "kernels/cpu/winograd.h"
#include "kernels/cpu/winograd_filter_gradient.h"
#include "ops/fused_ops.h"

namespace mirrorflow {
namespace {

template <typename T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <typename T>
using ConstMap = Eigen::Map<const Matrix<T>>;
template <typename T>
using Map = Eigen::Map<Matrix<T>>;

using Geometry = ConvolutionGeometry;

int64_t ImageSize(const Geometry& g) { return g.h.in * g.w.in * g.in_channels; }
int64_t OutputSize(const Geometry& g) { return g.h.out * g.w.out * g.out_channels; }
// Channels per group.
int64_t GroupIn(const Geometry& g) { return g.in_channels / g.groups; }
int64_t GroupOut(const Geometry& g) { return g.out_channels / g.groups; }
int64_t WindowSize(const Geometry& g) { return g.h.size * g.w.size * GroupIn(g); }

// Calls copy(row, offset, pixel) for each pixel under a window. In matrix row `row`, the elements
// starting at `offset` correspond to one group's channels of pixel `pixel`.
template <typename Fn>
void ForEachPixel(const Geometry& g, Fn copy) {
  for (int64_t y = 0; y < g.h.out; ++y) {
    for (int64_t x = 0; x < g.w.out; ++x) {
      const int64_t row = y * g.w.out + x;
      for (int64_t i = g.h.first_tap(y); i < g.h.last_tap(y); ++i) {
        for (int64_t j = g.w.first_tap(x); j < g.w.last_tap(x); ++j) {
          const int64_t iy = g.h.start(y) + i * g.h.dilation;
          const int64_t ix = g.w.start(x) + j * g.w.dilation;
          copy(row, (i * g.w.size + j) * GroupIn(g), iy * g.w.in + ix);
        }
      }
    }
  }
}

template <typename T>
void ImageToMatrix(const Geometry& g, int64_t group, const T* image, T* matrix) {
  const int64_t columns = WindowSize(g), channels = GroupIn(g), first = group * channels;
  std::fill_n(matrix, g.h.out * g.w.out * columns, T{0});
  const int64_t plane = g.h.in * g.w.in;
  ForEachPixel(g, [&](int64_t row, int64_t offset, int64_t pixel) {
    T* const to = matrix + row * columns + offset;
    if (g.nchw) {
      for (int64_t c = 0; c < channels; ++c) to[c] = image[(first + c) * plane + pixel];
    } else {
      std::copy_n(image + pixel * g.in_channels + first, channels, to);
    }
  });
}

template <typename T>
void AddMatrixToImage(const Geometry& g, int64_t group, const T* matrix, T* image) {
  const int64_t columns = WindowSize(g), channels = GroupIn(g), first = group * channels;
  const int64_t plane = g.h.in * g.w.in;
  ForEachPixel(g, [&](int64_t row, int64_t offset, int64_t pixel) {
    const T* from = matrix + row * columns + offset;
    if (g.nchw) {
      for (int64_t c = 0; c < channels; ++c) image[(first + c) * plane + pixel] += from[c];
    } else {
      T* const to = image + pixel * g.in_channels + first;
      for (int64_t c = 0; c < channels; ++c) to[c] += from[c];
    }
  });
}

// Calls fn(m), where m is one channel group of an output image as a matrix of pixels by channels.
template <typename MapOrConstMap, typename T, typename Fn>
void WithOutputMatrix(const Geometry& g, int64_t group, T* image, Fn fn) {
  const int64_t pixels = g.h.out * g.w.out, channels = GroupOut(g), first = group * channels;
  if (g.nchw) {
    MapOrConstMap m(image, g.out_channels, pixels);
    fn(m.middleRows(first, channels).transpose());
  } else {
    MapOrConstMap m(image, pixels, g.out_channels);
    fn(m.middleCols(first, channels));
  }
}

// Forward() and the two gradients use `matrix` as scratch for one image and add to `out`, which
// initially holds zeros.
template <typename T>
void Forward(const Geometry& g, const T* images, const T* filter, T* out, T* matrix) {
  const ConstMap<T> weights(filter, WindowSize(g), g.out_channels);
  for (int64_t i = 0; i < g.batch * g.groups; ++i) {
    const int64_t n = i / g.groups, group = i % g.groups;
    ImageToMatrix(g, group, images + n * ImageSize(g), matrix);
    const ConstMap<T> pixels(matrix, g.h.out * g.w.out, WindowSize(g));
    const auto of_group = weights.middleCols(group * GroupOut(g), GroupOut(g));
    WithOutputMatrix<Map<T>>(g, group, out + n * OutputSize(g),
                             [&](auto&& output) { output.noalias() += pixels * of_group; });
  }
}

template <typename T>
void BackpropInput(const Geometry& g, const T* filter, const T* dy, T* out, T* matrix) {
  const ConstMap<T> weights(filter, WindowSize(g), g.out_channels);
  for (int64_t i = 0; i < g.batch * g.groups; ++i) {
    const int64_t n = i / g.groups, group = i % g.groups;
    Map<T> pixels(matrix, g.h.out * g.w.out, WindowSize(g));
    const auto of_group = weights.middleCols(group * GroupOut(g), GroupOut(g));
    WithOutputMatrix<ConstMap<T>>(g, group, dy + n * OutputSize(g), [&](const auto& grad) {
      pixels.noalias() = grad * of_group.transpose();
    });
    AddMatrixToImage(g, group, matrix, out + n * ImageSize(g));
  }
}

template <typename T>
void BackpropFilter(const Geometry& g, const T* images, const T* dy, T* out, T* matrix) {
  Map<T> gradient(out, WindowSize(g), g.out_channels);
  for (int64_t i = 0; i < g.batch * g.groups; ++i) {
    const int64_t n = i / g.groups, group = i % g.groups;
    ImageToMatrix(g, group, images + n * ImageSize(g), matrix);
    const ConstMap<T> pixels(matrix, g.h.out * g.w.out, WindowSize(g));
    auto of_group = gradient.middleCols(group * GroupOut(g), GroupOut(g));
    WithOutputMatrix<ConstMap<T>>(g, group, dy + n * OutputSize(g), [&](const auto& grad) {
      of_group.noalias() += pixels.transpose() * grad;
    });
  }
}

template <typename T>
absl::StatusOr<KernelPlan> ByProducts(ConvolutionPart part, const Geometry& g,
                                      int64_t out_elements) {
  MF_ASSIGN_OR_RETURN(const int64_t pixels, CheckedMultiply(g.h.out, g.w.out));
  MF_ASSIGN_OR_RETURN(const int64_t elements, CheckedMultiply(pixels, WindowSize(g)));
  MF_ASSIGN_OR_RETURN(const int64_t matrix_bytes, CheckedMultiply(elements, sizeof(T)));
  return KernelPlan{.kernel = MakeKernel([=](const KernelArgs& args) {
                      T* const out = args.output<T>(0);
                      T* const matrix = args.scratch<T>();
                      std::fill_n(out, out_elements, T{0});
                      switch (part) {
                        case ConvolutionPart::kForward:
                          Forward(g, args.input<T>(0), args.input<T>(1), out, matrix);
                          break;
                        case ConvolutionPart::kBackpropInput:
                          BackpropInput(g, args.input<T>(1), args.input<T>(2), out, matrix);
                          break;
                        case ConvolutionPart::kBackpropFilter:
                          BackpropFilter(g, args.input<T>(0), args.input<T>(2), out, matrix);
                          break;
                      }
                    }),
                    .scratch_bytes = matrix_bytes};
}

// Makes the kernel of a convolution, or of the gradient of its images, by Winograd or
// PackedConvolution. These read the filter in a form; if `keeps_filter` is false, the kernel makes
// the form each time. `g` is the geometry that `algorithm` computes.
template <typename Algorithm>
KernelPlan WithFilterForm(const Algorithm& algorithm, const Geometry& g, ConvolutionPart part,
                          bool keeps_filter, const Epilogue& epilogue) {
  constexpr int64_t kFloat = sizeof(float);
  const int images = part == ConvolutionPart::kForward ? 0 : 2;
  const int64_t form_floats = keeps_filter ? 0 : algorithm.FormFloats();
  const int64_t scratch_floats = form_floats + algorithm.ScratchFloats();
  const auto run = [=](const KernelArgs& args) {
    // Without a request for scratch memory, there is none to ask for.
    float* const scratch = scratch_floats > 0 ? args.scratch<float>() : nullptr;
    const float* form = args.input<float>(1);
    if (!keeps_filter) {
      algorithm.MakeForm(form, scratch);
      form = scratch;
    }
    float* const out = args.output<float>(0);
    const ConstRows addend = epilogue.AddendOf(args, g.filter_channels);
    const auto finish = [&](int64_t first, int64_t pixels) {
      const Rows rows = {out + first * g.out_stride, g.out_stride};
      epilogue.Run(rows, addend.From(first), rows, pixels, g.out_channels);
    };
    algorithm.Run(args.input<float>(images), form, g.bias ? args.input<float>(2) : nullptr, out,
                  scratch + form_floats, finish);
  };
  KernelPlan plan = {.kernel = MakeKernel(run), .scratch_bytes = scratch_floats * kFloat};
  if (!keeps_filter) return plan;
  const auto make_form = [=](const KernelArgs& args) {
    algorithm.MakeForm(args.input<float>(0), args.output<float>(0));
  };
  plan.forms.push_back({.input = 1,
                        .key = algorithm.FormKey(),
                        .bytes = algorithm.FormFloats() * kFloat,
                        .make = MakeKernel(make_form)});
  return plan;
}

// Creates a kernel that computes a float convolution or gradient with Winograd's algorithm. Returns
// Unimplemented if oneDNN is faster. Chooses the tile size for `undivided`, the whole node. Except
// for filter gradients, sets *tile_rows to the height of a tile in output pixels.
absl::StatusOr<KernelPlan> ByWinograd(ConvolutionPart part, const Geometry& convolution,
                                      const Geometry& undivided, bool keeps_filter,
                                      const Epilogue& epilogue, int64_t* tile_rows) {
  const absl::Status slower = absl::UnimplementedError("oneDNN is faster");
  if (!Winograd::Supports(undivided) || !Winograd::Supports(convolution)) return slower;
  const auto flops_of = [](const auto& algorithm) {
    return static_cast<int64_t>(std::min(algorithm.flops(), 9e18));
  };
  if (part == ConvolutionPart::kBackpropFilter) {
    const int64_t tile = WinogradFilterGradient::FastestTile(undivided);
    if (tile == 0) return slower;
    const WinogradFilterGradient gradient(convolution, tile);
    const auto run = [gradient](const KernelArgs& args) {
      gradient.Run(args.input<float>(0), args.input<float>(2), args.output<float>(0),
                   args.scratch<float>());
    };
    return KernelPlan{
        .kernel = MakeKernel(run),
        .scratch_bytes = gradient.ScratchFloats() * static_cast<int64_t>(sizeof(float)),
        .flops = flops_of(gradient)};
  }
  const bool is_forward = part == ConvolutionPart::kForward;
  const auto convolution_of = [&](const Geometry& g) {
    return is_forward ? g : Winograd::GradientOfImages(g);
  };
  const auto windows = is_forward ? Winograd::Windows::kAsStored : Winograd::Windows::kRotated;
  const int64_t tile = Winograd::FastestTile(convolution_of(undivided), windows,
                                             /*makes_form=*/!keeps_filter);
  if (tile == 0) return slower;
  const Geometry g = convolution_of(convolution);
  const Winograd winograd(g, tile, windows);
  *tile_rows = tile;
  KernelPlan plan = WithFilterForm(winograd, g, part, keeps_filter, epilogue);
  plan.flops = flops_of(winograd);
  return plan;
}

// Creates one of Mirrorflow's own kernels for a float convolution or gradient. Returns
// Unimplemented if oneDNN is faster for `undivided`, the whole node.
absl::StatusOr<KernelPlan> OwnConvolution(ConvolutionPart part, const Geometry& g,
                                          const Geometry& undivided, bool keeps_filter,
                                          const Epilogue& epilogue, const KernelOptions& options,
                                          int64_t* tile_rows) {
  absl::StatusOr<KernelPlan> plan = absl::UnimplementedError("Winograd's algorithm is not allowed");
  if (options.allow_winograd) {
    plan = ByWinograd(part, g, undivided, keeps_filter, epilogue, tile_rows);
  }
  // PackedConvolution was measured only with filters that stay packed.
  if (absl::IsUnimplemented(plan.status()) && part == ConvolutionPart::kForward && keeps_filter &&
      PackedConvolution::Supports(g) && PackedConvolution::IsFaster(undivided)) {
    plan = WithFilterForm(PackedConvolution(g), g, part, keeps_filter, epilogue);
  }
  return plan;
}

// Makes the kernel for empty operands. The kernel fills the output, which may itself be empty, with
// zeros.
KernelPlan Zeros(int64_t bytes) {
  return {.kernel = MakeKernel(
              [bytes](const KernelArgs& args) { std::memset(args.output<char>(0), 0, bytes); })};
}

// Divides the output channels of an NHWC convolution whose filter is kept in a form, or of a filter
// gradient, among threads. Each thread reads all images, but only its own channels of the filter or
// of the output gradient. Small images have few rows and are cheap to read, so for them this is
// faster than dividing the rows (HeightPart).
class ChannelPart {
 public:
  explicit ChannelPart(const KernelContext& c)
      : part_(c.part() != nullptr && c.part()->dim == kChannels ? c.part() : nullptr) {}

  bool is_part() const { return part_ != nullptr; }
  void SetChannels(Geometry* g) const {
    if (part_ == nullptr) return;
    g->first_channel = part_->first;
    g->out_channels = part_->count;
  }
  // Complete the plan of a kernel that can compute a subset of the output channels.
  void CompleteForward(const Epilogue& epilogue, bool bias, KernelPlan* plan) const {
    plan->divisible_dims.push_back(
        {.dim = kChannels, .multiple = PackedProduct::kColumnMultiple, .divided_inputs = {1}});
    if (part_ == nullptr) return;
    if (bias) plan->part_inputs.push_back({2, {0, part_->first, part_->count}});
    if (epilogue.adds()) plan->part_inputs.push_back({Epilogue::kAddendInput, *part_});
  }
  void CompleteFilterGradient(KernelPlan* plan) const {
    constexpr int64_t kCacheLine = 64 / sizeof(float);
    plan->divisible_dims = {{.dim = kChannels, .multiple = kCacheLine, .divided_inputs = {2}}};
    if (part_ != nullptr) plan->part_inputs = {{2, *part_}};
  }

 private:
  static constexpr int kChannels = 3;

  const DimRange* part_;  // null if the kernel computes all channels
};

template <ConvolutionPart part>
absl::StatusOr<KernelPlan> Create(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const Geometry undivided,
                      ConvolutionOf(c.node(), ShapesOf(part, c.undivided())));
  const ConvolutionShapes shapes = ShapesOf(part, HeightPart::Undivided(c));
  MF_ASSIGN_OR_RETURN(Geometry g, ConvolutionOf(c.node(), shapes));
  const HeightPart rows(c, undivided.batch, undivided.nchw, undivided.h);
  g.h = rows.window();
  const ChannelPart channels(c);
  channels.SetChannels(&g);
  if (part == ConvolutionPart::kForward && !g.nchw) g.out_stride = c.row_stride();
  const DataType dtype = c.output_dtype(0);
  const int64_t out_elements = c.output_shape(0).num_elements();
  const Epilogue epilogue = Epilogue::Of(c.node());
  const auto with_epilogue = [&](KernelPlan plan) {
    if (out_elements == 0) return plan;
    if (g.bias) {
      plan = ThenAddBias(std::move(plan), out_elements / g.out_channels, g.out_channels);
    }
    return ThenRun(epilogue, std::move(plan), out_elements);
  };
  if (shapes.AnyEmpty()) return with_epilogue(Zeros(out_elements * DataTypeSize(dtype)));
  absl::StatusOr<KernelPlan> plan = absl::UnimplementedError("oneDNN was not tried");
  int64_t tile_rows = 1;
  const bool keeps_filter = c.changes_rarely(1);
  if (dtype == DT_FLOAT) {
    plan = OwnConvolution(part, g, undivided, keeps_filter, epilogue, c.options(), &tile_rows);
    if (absl::IsUnimplemented(plan.status())) {
      plan = OneDnnConvolution(part, g, undivided, keeps_filter, epilogue);
    }
  }
  const bool is_plain = absl::IsUnimplemented(plan.status());
  if (is_plain) {
    if (channels.is_part()) return plan;
    plan = ForType(TypeList<float, double, int32_t>(), dtype, [&]<typename T>(TypeTag<T>) {
      return ByProducts<decltype(Wrapping(T()))>(part, g, out_elements);  // integers wrap
    });
    if (plan.ok()) plan = with_epilogue(*std::move(plan));
  }
  MF_RETURN_IF_ERROR(plan.status());
  if (plan->flops == 0) {
    plan->flops = ShapesOf(part, c).Flops(WindowSize(g));
    const bool has_whole_output = part == ConvolutionPart::kBackpropFilter;
    if (has_whole_output) plan->flops = plan->flops / undivided.out_channels * g.out_channels;
  }
  const bool has_channel_parts = !is_plain && !g.nchw && g.groups == 1;
  if (part == ConvolutionPart::kForward) {
    plan->supports_row_stride = !is_plain && !g.nchw;
    rows.Complete(epilogue.adds(), tile_rows, &*plan);
    if (has_channel_parts && keeps_filter) channels.CompleteForward(epilogue, g.bias, &*plan);
  } else if (part == ConvolutionPart::kBackpropFilter && has_channel_parts) {
    channels.CompleteFilterGradient(&*plan);
  }
  return plan;
}

}  // namespace

void RegisterConv2DCpu(KernelRegistry& kernels) {
  kernels.Register(ops::kConv2D, "CPU", Create<ConvolutionPart::kForward>);
  for (const std::string& op : ops::FusedVariants(ops::kConv2D)) {
    kernels.Register(op, "CPU", Create<ConvolutionPart::kForward>);
  }
  kernels.Register("Conv2DBackpropInput", "CPU", Create<ConvolutionPart::kBackpropInput>);
  kernels.Register("Conv2DBackpropFilter", "CPU", Create<ConvolutionPart::kBackpropFilter>);
}

}  // namespace mirrorflow
