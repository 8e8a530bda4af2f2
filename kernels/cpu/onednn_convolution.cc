// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/onednn_primitive.h"
#include "kernels/cpu/onednn_reorder.h"
#include "kernels/cpu/vectorize.h"

namespace mirrorflow {
namespace {

using dnnl::memory;
using onednn::Attributes;
using onednn::Cached;
using onednn::Engine;
using onednn::FloatBias;
using onednn::FormOf;
using onednn::Primitive;
using onednn::PrimitivePtr;
using onednn::Reorder;
using onednn::Scratch;
using onednn::Scratchpad;

memory::desc FloatImages(bool nchw, int64_t batch, int64_t channels, int64_t h, int64_t w) {
  return memory::desc({batch, channels, h, w}, memory::data_type::f32,
                      nchw ? memory::format_tag::nchw : memory::format_tag::nhwc);
}

// Describes a filter in oneDNN's dimension order. By default oneDNN chooses the layout.
memory::desc FloatFilter(const ConvolutionGeometry& g,
                         memory::format_tag layout = memory::format_tag::any) {
  memory::dims dims = {g.out_channels / g.groups, g.in_channels / g.groups, g.h.size, g.w.size};
  if (g.groups > 1) dims.insert(dims.begin(), g.groups);
  return memory::desc(dims, memory::data_type::f32, layout);
}

// Describes a filter in the graph's layout.
memory::desc PlainFilter(const ConvolutionGeometry& g) {
  return FloatFilter(g, g.groups > 1 ? memory::format_tag::hwigo : memory::format_tag::hwio);
}

// Returns the name of the implementation that computes a convolution fastest, or an empty name for
// oneDNN's first choice. That is brgconv, which computes few pixels of many images at half
// the speed of the older JIT. On one core of a Zen 5 processor, in GFLOP/s, first choice and rule:
//   3x3, 512 channels, 2x2 pixels, batch 32: 141, 244    1x1, 16 to 96 channels, 48x48: 82, 130
//   3x3, 512 channels, 4x4 pixels, batch 4: 114, 200     1x1, 1024 to 2048, 2x2, batch 1: 72, 98
// For a single image or many pixels, the first choice is as fast or up to 1.8 times faster.
absl::string_view FastestImplementation(const ConvolutionGeometry& g) {
  constexpr absl::string_view kFirst = "", kDirect = "jit:avx512_core";
  constexpr absl::string_view kPointwise = "jit_1x1:avx512_core";
  if (g.nchw || g.groups > 1) return kFirst;
  const int64_t pixels = g.h.out * g.w.out;
  if (g.h.size * g.w.size > 1) {
    return g.in_channels <= 4 || (g.batch > 1 && pixels <= 49) ? kDirect : kFirst;
  }
  if (g.batch == 1) return pixels <= 16 && g.in_channels >= 600 ? kPointwise : kFirst;
  if (g.out_channels <= 16) return kDirect;
  if (pixels > 36 && g.in_channels > 160) return kFirst;
  // kDirect computes two or more blocks of 16 channels at once if their count has a small divisor.
  const int64_t blocks = (g.out_channels + 15) / 16;
  const bool groups_blocks = blocks % 2 == 0 || blocks % 3 == 0 || blocks % 5 == 0;
  return blocks >= 4 && groups_blocks ? kDirect : kPointwise;
}

// Returns the implementation called `name`, or oneDNN's first choice if it does not support this
// convolution. `desc` is a parameter because next_impl() reads it.
dnnl::convolution_forward::primitive_desc Implementation(
    absl::string_view name, const dnnl::convolution_forward::desc& desc) {
  dnnl::convolution_forward::primitive_desc pd(desc, Attributes(), Engine());
  const dnnl::convolution_forward::primitive_desc first = pd;
  if (name.empty()) return first;
  do {
    if (pd.impl_info_str() == name) return pd;
  } while (pd.next_impl());
  return first;
}

// Descriptors of a convolution and its gradients.
struct Convolution {
  explicit Convolution(const ConvolutionGeometry& g)
      : images(FloatImages(g.nchw, g.batch, g.in_channels, g.h.in, g.w.in)),
        filter(FloatFilter(g)),
        output(FloatImages(g.nchw, g.batch, g.out_channels, g.h.out, g.w.out)),
        strides({g.h.stride, g.w.stride}),
        dilates({g.h.dilation - 1, g.w.dilation - 1}),
        before({g.h.before, g.w.before}),
        after({g.h.after(), g.w.after()}),
        implementation(FastestImplementation(g)) {}

  // An empty `bias` means no bias.
  dnnl::convolution_forward::primitive_desc Forward(const memory::desc& bias = {}) const {
    return Implementation(implementation,
                          {dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct,
                           images, filter, bias, output, strides, dilates, before, after});
  }
  dnnl::convolution_backward_data::primitive_desc BackpropInput() const {
    return {{dnnl::algorithm::convolution_direct, images, filter, output, strides, dilates, before,
             after},
            Attributes(),
            Engine(),
            Forward()};
  }
  dnnl::convolution_backward_weights::primitive_desc BackpropFilter() const {
    return {{dnnl::algorithm::convolution_direct, images, filter, output, strides, dilates, before,
             after},
            Attributes(),
            Engine(),
            Forward()};
  }

  const memory::desc images, filter, output;
  const memory::dims strides, dilates, before, after;
  const absl::string_view implementation;  // of the forward convolution
};

std::string Key(absl::string_view what, const ConvolutionGeometry& g) {
  std::string key = absl::StrCat(what, " ", g.nchw, " ", g.batch, " ", g.in_channels, " ",
                                 g.out_channels, " ", g.groups, " ", g.bias);
  for (const Window* window : {&g.h, &g.w}) {
    absl::StrAppend(&key, " ", window->in, " ", window->out, " ", window->size, " ", window->stride,
                    " ", window->before, " ", window->dilation);
  }
  return key;
}

// Also rejects windows with very many elements, because oneDNN enumerates the elements before the
// filter's memory is known to be available.
absl::Status CheckSizes(const ConvolutionGeometry& g) {
  constexpr double kMaxWindowElements = 1 << 20;
  if (static_cast<double>(g.h.size) * static_cast<double>(g.w.size) > kMaxWindowElements) {
    return absl::UnimplementedError("a window is too large for oneDNN");
  }
  const double batch = g.batch, in = g.in_channels, out = g.out_channels;
  return onednn::CheckSizes({batch * g.h.in * g.w.in * in, batch * g.h.out * g.w.out * out,
                             in * out * g.h.size * g.w.size});
}

// The images of a convolution, in `count` blocks, for each of which the primitive runs once.
struct ImageBlocks {
  int64_t count = 1;
  int64_t in_floats = 0;  // per block
  int64_t out_floats = 0;
  Epilogue epilogue = {};
};

// Divides the images so that the epilogue finds each block's output in the cache, unless reading
// the filter more often would take longer than the epilogue saves.
ImageBlocks BlocksOf(const ConvolutionGeometry& g, const Epilogue& epilogue) {
  constexpr int64_t kCacheFloats = 64 << 10;  // a quarter of a small L2 cache
  const int64_t in = g.h.in * g.w.in * g.in_channels, out = g.h.out * g.w.out * g.out_channels;
  const int64_t filter = g.h.size * g.w.size * g.in_channels / g.groups * g.out_channels;
  int64_t images = g.batch;
  const int64_t max_images = std::max<int64_t>(kCacheFloats / out, 1);
  if (!epilogue.empty() && filter < kCacheFloats && images > max_images) {
    images = max_images;
    while (g.batch % images != 0) --images;
    if (images < max_images / 4) images = g.batch;  // many small blocks would take longer
  }
  return {.count = g.batch / images,
          .in_floats = images * in,
          .out_floats = images * out,
          .epilogue = epilogue};
}

// Returns a kernel that converts the filter (input 1) to oneDNN's layout. For each block it then
// runs `primitive` on input `input`, the filter, output 0 and the bias (input 2), if the geometry
// has one, and the epilogue. If `keeps_filter` is true, the kernel expects the converted filter as
// a form instead.
absl::StatusOr<KernelPlan> WithReorderedFilter(const ConvolutionGeometry& g, const std::string& key,
                                               const PrimitivePtr& primitive, int input,
                                               bool keeps_filter, const ImageBlocks& blocks = {}) {
  const memory::desc plain = PlainFilter(g);
  MF_ASSIGN_OR_RETURN(
      const Reorder::Ptr reorder,
      Reorder::OfFilter(absl::StrCat("reorder for ", key), plain, primitive->desc(1)));
  const bool has_form = keeps_filter && reorder != nullptr;
  const bool reorders = !has_form && reorder != nullptr;
  Scratch scratch;
  const int64_t filter = reorders ? scratch.Add(primitive->desc(1)) : 0;
  const int64_t reorder_pad = reorders ? scratch.Add(reorder->scratchpad()) : 0;
  const int64_t pad = scratch.Add(primitive->desc(3));
  const int64_t bytes = scratch.bytes();
  const bool bias = g.bias;
  std::vector<OperandForm> forms;
  if (has_form) forms.push_back(FormOf(/*input=*/1, key, reorder, /*transposed=*/false));
  return KernelPlan{
      .kernel = MakeKernel([=](const KernelArgs& args, Lane& lane) -> absl::Status {
        std::byte* const start = Scratch::Start(args, bytes);
        const void* weights = args.input<float>(1);
        if (reorders) {
          MF_RETURN_IF_ERROR(reorder->Run(lane, weights, start + filter, start + reorder_pad));
          weights = start + filter;
        }
        const Epilogue& epilogue = blocks.epilogue;
        const float* in = args.input<float>(input);
        float* out = args.output<float>(0);
        const float* addend = epilogue.adds() ? args.input<float>(Epilogue::kAddendInput) : nullptr;
        for (int64_t i = 0; i < blocks.count; ++i) {
          MF_RETURN_IF_ERROR(
              bias ? primitive->Run(lane, {in, weights, out, start + pad, args.input<float>(2)})
                   : primitive->Run(lane, {in, weights, out, start + pad}));
          if (epilogue.empty()) continue;
          epilogue.Run(out, addend, blocks.out_floats);
          in += blocks.in_floats;
          out += blocks.out_floats;
          if (addend != nullptr) addend += blocks.out_floats;
        }
        return absl::OkStatus();
      }),
      .scratch_bytes = bytes,
      .forms = std::move(forms)};
}

absl::StatusOr<KernelPlan> ConvolutionForward(const ConvolutionGeometry& whole, bool keeps_filter,
                                              const Epilogue& epilogue) {
  const ImageBlocks blocks = BlocksOf(whole, epilogue);
  ConvolutionGeometry g = whole;
  g.batch /= blocks.count;
  const std::string key = Key("convolution", g);
  MF_ASSIGN_OR_RETURN(
      const PrimitivePtr primitive, Cached(key, [&] {
        const Convolution c(g);
        const memory::desc bias = FloatBias(g.bias, {g.out_channels}, memory::format_tag::a);
        const auto pd = c.Forward(bias);
        std::vector<Primitive::Arg> args = {{DNNL_ARG_SRC, c.images},
                                            {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                            {DNNL_ARG_DST, c.output},
                                            Scratchpad(pd)};
        if (g.bias) args.push_back({DNNL_ARG_BIAS, bias});
        return std::make_shared<const Primitive>(dnnl::convolution_forward(pd), std::move(args));
      }));
  return WithReorderedFilter(g, key, primitive, /*input=*/0, keeps_filter, blocks);
}

absl::StatusOr<KernelPlan> ConvolutionBackpropInput(const ConvolutionGeometry& g,
                                                    bool keeps_filter) {
  const std::string key = Key("convolution backprop input", g);
  MF_ASSIGN_OR_RETURN(const PrimitivePtr primitive, Cached(key, [&] {
                        const Convolution c(g);
                        const auto pd = c.BackpropInput();
                        return std::make_shared<const Primitive>(
                            dnnl::convolution_backward_data(pd),
                            std::vector<Primitive::Arg>{{DNNL_ARG_DIFF_DST, c.output},
                                                        {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                                        {DNNL_ARG_DIFF_SRC, c.images},
                                                        Scratchpad(pd)});
                      }));
  return WithReorderedFilter(g, key, primitive, /*input=*/2, keeps_filter);
}

absl::StatusOr<KernelPlan> ConvolutionBackpropFilter(const ConvolutionGeometry& g) {
  const std::string key = Key("convolution backprop filter", g);
  MF_ASSIGN_OR_RETURN(
      const PrimitivePtr primitive, Cached(key, [&] {
        const Convolution c(g);
        const auto pd = c.BackpropFilter();
        return std::make_shared<const Primitive>(
            dnnl::convolution_backward_weights(pd),
            std::vector<Primitive::Arg>{{DNNL_ARG_SRC, c.images},
                                        {DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc()},
                                        {DNNL_ARG_DIFF_DST, c.output},
                                        Scratchpad(pd)});
      }));
  const memory::desc plain = PlainFilter(g);
  MF_ASSIGN_OR_RETURN(const Reorder::Ptr reorder, Reorder::Create(absl::StrCat("reorder for ", key),
                                                                  primitive->desc(1), plain));
  Scratch scratch;
  const int64_t filter = scratch.Add(primitive->desc(1));
  const int64_t reorder_pad = reorder != nullptr ? scratch.Add(reorder->scratchpad()) : 0;
  const int64_t pad = scratch.Add(primitive->desc(3));
  const int64_t bytes = scratch.bytes();
  return KernelPlan{.kernel = MakeKernel([=](const KernelArgs& args, Lane& lane) -> absl::Status {
                      std::byte* const start = Scratch::Start(args, bytes);
                      void* const out = args.output<float>(0);
                      void* const gradient = reorder != nullptr ? start + filter : out;
                      MF_RETURN_IF_ERROR(primitive->Run(lane, {args.input<float>(0), gradient,
                                                               args.input<float>(2), start + pad}));
                      if (reorder == nullptr) return absl::OkStatus();
                      return reorder->Run(lane, gradient, out, start + reorder_pad);
                    }),
                    .scratch_bytes = bytes};
}

// Returns the matrix product that computes a gradient of a 1x1 convolution, if that is faster. It
// is for few pixels and many channels, because a product reads and writes the filter in the graph's
// layout. Only AVX-512 has fast products of any layout (product.h).
std::optional<ProductGeometry> FastProduct(ConvolutionPart part, const ConvolutionGeometry& g) {
  constexpr int64_t kMaxPixels = 256, kMinWeights = int64_t{1} << 18;
  const auto keeps_pixels = [](const Window& w) {
    return w.size == 1 && w.stride == 1 && w.before == 0 && w.in == w.out;
  };
  const int64_t pixels = g.batch * g.h.out * g.w.out;
  if (part == ConvolutionPart::kForward || g.nchw || g.groups > 1 || !keeps_pixels(g.h) ||
      !keeps_pixels(g.w) || pixels > kMaxPixels || g.in_channels * g.out_channels < kMinWeights ||
      !HasAvx512()) {
    return std::nullopt;
  }
  if (part == ConvolutionPart::kBackpropInput) {
    return ProductGeometry{.m = pixels,
                           .n = g.in_channels,
                           .k = g.out_channels,
                           .transpose_a = false,
                           .transpose_b = true,
                           .a = 2,
                           .b = 1};
  }
  return ProductGeometry{.m = g.in_channels,
                         .n = g.out_channels,
                         .k = pixels,
                         .transpose_a = true,
                         .transpose_b = false,
                         .a = 0,
                         .b = 2};
}

}  // namespace

absl::StatusOr<KernelPlan> OneDnnConvolution(ConvolutionPart part, const ConvolutionGeometry& g,
                                             bool keeps_filter, const Epilogue& epilogue) {
  MF_RETURN_IF_ERROR(CheckSizes(g));
  if (const std::optional<ProductGeometry> product = FastProduct(part, g)) {
    return OneDnnProduct(*product, keeps_filter && part == ConvolutionPart::kBackpropInput);
  }
  switch (part) {
    case ConvolutionPart::kForward:
      return ConvolutionForward(g, keeps_filter, epilogue);
    case ConvolutionPart::kBackpropInput:
      return ConvolutionBackpropInput(g, keeps_filter);
    case ConvolutionPart::kBackpropFilter:
      return ConvolutionBackpropFilter(g);
  }
  return absl::UnimplementedError("unknown part of a convolution");
}

}  // namespace mirrorflow
