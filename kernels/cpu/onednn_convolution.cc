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

memory::desc FloatImages(memory::format_tag layout, int64_t batch, int64_t channels, int64_t h,
                         int64_t w) {
  return memory::desc({batch, channels, h, w}, memory::data_type::f32, layout);
}

memory::format_tag LayoutOfImages(const ConvolutionGeometry& g) {
  return g.nchw ? memory::format_tag::nchw : memory::format_tag::nhwc;
}

// Describes a filter in oneDNN's dimension order. By default oneDNN chooses the layout.
memory::desc FloatFilter(const ConvolutionGeometry& g,
                         memory::format_tag layout = memory::format_tag::any) {
  memory::dims dims = {g.out_channels / g.groups, g.in_channels / g.groups, g.h.size, g.w.size};
  if (g.groups > 1) dims.insert(dims.begin(), g.groups);
  return memory::desc(dims, memory::data_type::f32, layout);
}

// Describes the filter in the graph's layout, restricted to the output channels that the
// convolution computes. The address is that of channel 0.
memory::desc PlainFilter(ConvolutionGeometry g) {
  if (g.groups > 1) return FloatFilter(g, memory::format_tag::hwigo);
  const memory::dims channels = FloatFilter(g).dims();
  g.out_channels = g.filter_channels;
  return FloatFilter(g, memory::format_tag::hwio)
      .submemory_desc(channels, {g.first_channel, 0, 0, 0});
}

// Returns whether each output pixel depends only on the input pixel at its place, and the channels
// of a pixel are contiguous.
bool IsPointwise(const ConvolutionGeometry& g) {
  const auto keeps_pixels = [](const Window& w) {
    return w.size == 1 && w.stride == 1 && w.before == 0 && w.in == w.out;
  };
  return !g.nchw && g.groups == 1 && keeps_pixels(g.h) && keeps_pixels(g.w);
}

// Returns a pointwise convolution with all pixels in one row of one image. oneDNN's kernels work on
// the pixels of a row or an image at a time, so many small images would leave them half empty. On
// one core of a Zen 5 processor, 1x1, 512 to 2048 channels, 32 images of 2x2 pixels: 190 GFLOP/s
// as images, 258 as a row.
ConvolutionGeometry WithOneRow(ConvolutionGeometry g) {
  g.w.in = g.w.out = g.batch * g.h.out * g.w.out;
  g.h.in = g.h.out = g.batch = 1;
  return g;
}

// Returns the name of the implementation that computes a convolution fastest, or an empty name for
// oneDNN's first choice. That is brgconv, which the older JIT surpasses in some cases. GFLOP/s of
// the first choice and of this function's choice, on one core of a Zen 5 processor:
//
//   3x3, 512 channels, 2x2 pixels, batch 32    141, 244
//   3x3, 512 channels, 4x4 pixels, batch 4     114, 200
//   1x1, 16 to 96 channels, 73728 pixels       121, 185
//   1x1, 144 to 24 channels, 18432 pixels      145, 188
//
// In all other cases, the first choice is at least as fast, and up to 1.8 times faster.
absl::string_view FastestImplementation(const ConvolutionGeometry& g) {
  constexpr absl::string_view kFirst = "", kDirect = "jit:avx512_core";
  if (g.nchw || g.groups > 1) return kFirst;
  const int64_t pixels = g.h.out * g.w.out;
  const bool is_faster = g.h.size * g.w.size == 1
                             ? pixels >= 256 && (g.in_channels <= 32 || g.out_channels <= 48)
                             : g.in_channels <= 4 || (g.batch > 1 && pixels <= 49);
  return is_faster ? kDirect : kFirst;
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
  // `implementation` names the implementation of the forward convolution.
  Convolution(const ConvolutionGeometry& g, absl::string_view implementation)
      : images(FloatImages(LayoutOfImages(g), g.batch, g.in_channels, g.h.in, g.w.in)),
        filter(FloatFilter(g)),
        output(FloatImages(LayoutOfImages(g), g.batch, g.out_channels, g.h.out, g.w.out)),
        strides({g.h.stride, g.w.stride}),
        dilates({g.h.dilation - 1, g.w.dilation - 1}),
        before({g.h.before, g.w.before}),
        after({g.h.after(), g.w.after()}),
        implementation(implementation) {}

  // An empty `bias` means no bias.
  dnnl::convolution_forward::primitive_desc Forward(const memory::desc& bias = {}) const {
    return Implementation(implementation,
                          {dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct,
                           images, filter, bias, output, strides, dilates, before, after});
  }
  // Describes a gradient.
  template <typename Primitive>
  typename Primitive::primitive_desc Backprop() const {
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

// How a convolution is divided into blocks of images, or of pixels if it is pointwise. The
// primitive and then the epilogue run once per block. The last block may overlap the block before
// it.
struct Blocks {
  int64_t units = 1;       // images or pixels of all blocks
  int64_t size = 1;        // of a block, in units
  int64_t in_floats = 0;   // per unit
  int64_t out_pixels = 0;  // per unit
  int64_t out_channels = 0;
  // The stride between output pixels. oneDNN's fast implementations support only `out_channels`.
  // For other strides, the primitive writes a block to scratch memory, and the epilogue moves it.
  int64_t out_stride = 0;
  int64_t addend_stride = 0;  // between pixels of the epilogue's addend
  Epilogue epilogue = {};

  int64_t out_floats() const { return out_pixels * out_channels; }  // per unit
  bool moves() const { return out_stride != out_channels; }
};

// Divides the convolution so that the epilogue finds each block's output in the cache, unless
// rereading the filter for each block would cost more time than that saves.
Blocks BlocksOf(const ConvolutionGeometry& g, const Epilogue& epilogue) {
  constexpr int64_t kCacheFloats = 64 << 10;  // a quarter of a small L2 cache
  const bool by_pixels = IsPointwise(g);
  Blocks blocks = {.units = by_pixels ? g.w.out : g.batch,
                   .in_floats = by_pixels ? g.in_channels : g.h.in * g.w.in * g.in_channels,
                   .out_pixels = by_pixels ? 1 : g.h.out * g.w.out,
                   .out_channels = g.out_channels,
                   .out_stride = g.out_stride,
                   .addend_stride = g.filter_channels,
                   .epilogue = epilogue};
  blocks.size = blocks.units;
  const bool finishes = blocks.moves() || !epilogue.empty();
  const int64_t filter = g.h.size * g.w.size * g.in_channels / g.groups * g.out_channels;
  const int64_t max_size = std::max<int64_t>(kCacheFloats / blocks.out_floats(), 1);
  if (!finishes || filter >= kCacheFloats || blocks.units <= max_size) return blocks;
  if (by_pixels) {
    const int64_t count = (blocks.units + max_size - 1) / max_size;
    blocks.size = (blocks.units + count - 1) / count;  // an overlap is less than `count` pixels
    return blocks;
  }
  int64_t size = max_size;
  while (blocks.units % size != 0) --size;
  // Many small blocks would take longer.
  if (size >= max_size / 4) blocks.size = size;
  return blocks;
}

// An operand of a primitive that the kernel copies to or from scratch memory if the graph and the
// primitive use different layouts.
class StagedOperand {
 public:
  // `reorder` is null if no copy is needed. `layout` is the primitive's layout.
  StagedOperand(Reorder::Ptr reorder, const memory::desc& layout, Scratch* scratch)
      : reorder_(std::move(reorder)) {
    if (reorder_ == nullptr) return;
    staged_ = scratch->Add(layout);
    pad_ = scratch->Add(reorder_->scratchpad());
  }

  // Returns the memory that the primitive uses: that of the graph's value, `plain`, or a piece of
  // the scratch memory at `start`.
  const void* Address(const void* plain, std::byte* start) const {
    return reorder_ == nullptr ? plain : start + staged_;
  }
  // Copies an input before the primitive runs.
  absl::Status Load(Lane& lane, const void* plain, std::byte* start) const {
    if (reorder_ == nullptr) return absl::OkStatus();
    return reorder_->Run(lane, plain, start + staged_, start + pad_);
  }
  // Copies an output after the primitive has run.
  absl::Status Store(Lane& lane, std::byte* start, void* plain) const {
    if (reorder_ == nullptr) return absl::OkStatus();
    return reorder_->Run(lane, start + staged_, plain, start + pad_);
  }

 private:
  Reorder::Ptr reorder_;
  int64_t staged_ = 0, pad_ = 0;
};

// Returns a kernel that converts the filter (input 1) to oneDNN's layout. For each block it then
// runs `primitive` on input `input`, the filter, output 0 and the bias (input 2), if the geometry
// has one, and the epilogue. If `keeps_filter` is true, the kernel expects the converted filter as
// a form instead.
absl::StatusOr<KernelPlan> MakePlan(const ConvolutionGeometry& g, const std::string& key,
                                    const PrimitivePtr& primitive, int input, bool keeps_filter,
                                    const Blocks& blocks = {}) {
  const memory::desc& layout = primitive->desc(1);
  const std::string reorder_key = absl::StrCat("reorder for ", key, ", channels from ",
                                               g.first_channel, " of ", g.filter_channels);
  MF_ASSIGN_OR_RETURN(Reorder::Ptr filter_reorder,
                      Reorder::OfFilter(reorder_key, PlainFilter(g), layout));
  std::vector<OperandForm> forms;
  if (keeps_filter && filter_reorder != nullptr) {
    forms.push_back(FormOf(/*input=*/1, reorder_key, filter_reorder, /*transposed=*/false));
    filter_reorder = nullptr;
  }
  Scratch scratch;
  const StagedOperand filter(std::move(filter_reorder), layout, &scratch);
  const int64_t pad = scratch.Add(primitive->desc(3));
  const int64_t staged = blocks.moves() ? scratch.Add(primitive->desc(2)) : 0;
  const int64_t bytes = scratch.bytes();
  const bool bias = g.bias;
  return KernelPlan{
      .kernel = MakeKernel([=](const KernelArgs& args, Lane& lane) -> absl::Status {
        std::byte* const start = Scratch::Start(args, bytes);
        MF_RETURN_IF_ERROR(filter.Load(lane, args.input<float>(1), start));
        const void* const weights = filter.Address(args.input<float>(1), start);
        const Epilogue& epilogue = blocks.epilogue;
        const ConstRows addend = epilogue.AddendOf(args, blocks.addend_stride);
        for (int64_t next = 0; next < blocks.units; next += blocks.size) {
          const int64_t first = std::min(next, blocks.units - blocks.size);
          const float* const in = args.input<float>(input) + first * blocks.in_floats;
          const Rows out = {args.output<float>(0) + first * blocks.out_pixels * blocks.out_stride,
                            blocks.out_stride};
          const Rows computed = {
              blocks.moves() ? reinterpret_cast<float*>(start + staged) : out.data,
              blocks.out_channels};
          MF_RETURN_IF_ERROR(bias
                                 ? primitive->Run(lane, {in, weights, computed.data, start + pad,
                                                         args.input<float>(2)})
                                 : primitive->Run(lane, {in, weights, computed.data, start + pad}));
          epilogue.Run(computed, addend.From(first * blocks.out_pixels), out,
                       blocks.size * blocks.out_pixels, blocks.out_channels);
        }
        return absl::OkStatus();
      }),
      .scratch_bytes = bytes,
      .forms = std::move(forms)};
}

// Returns the geometry of one block.
ConvolutionGeometry OfBlock(ConvolutionGeometry g, const Blocks& blocks) {
  if (IsPointwise(g)) {
    g.w.in = g.w.out = blocks.size;
  } else {
    g.batch = blocks.size;
  }
  return g;
}

absl::StatusOr<KernelPlan> ConvolutionForward(const ConvolutionGeometry& convolution,
                                              const ConvolutionGeometry& undivided,
                                              bool keeps_filter, const Epilogue& epilogue) {
  const Blocks blocks = BlocksOf(convolution, epilogue);
  const ConvolutionGeometry g = OfBlock(convolution, blocks);
  const absl::string_view implementation =
      FastestImplementation(OfBlock(undivided, BlocksOf(undivided, epilogue)));
  const std::string key = absl::StrCat(Key("convolution", g), " ", implementation);
  const Convolution c(g, implementation);
  MF_ASSIGN_OR_RETURN(
      const PrimitivePtr primitive, Cached(key, [&] {
        const memory::desc bias = FloatBias(g.bias, {g.out_channels}, memory::format_tag::a);
        const auto pd = c.Forward(bias);
        std::vector<Primitive::Arg> args = {{DNNL_ARG_SRC, c.images},
                                            {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                            {DNNL_ARG_DST, c.output},
                                            Scratchpad(pd)};
        if (g.bias) args.push_back({DNNL_ARG_BIAS, bias});
        return std::make_shared<const Primitive>(dnnl::convolution_forward(pd), std::move(args));
      }));
  return MakePlan(g, key, primitive, /*input=*/0, keeps_filter, blocks);
}

absl::StatusOr<KernelPlan> ConvolutionBackpropInput(const ConvolutionGeometry& g,
                                                    const ConvolutionGeometry& undivided,
                                                    bool keeps_filter) {
  const absl::string_view implementation = FastestImplementation(undivided);
  const std::string key = absl::StrCat(Key("convolution backprop input", g), " ", implementation);
  const Convolution c(g, implementation);
  MF_ASSIGN_OR_RETURN(const PrimitivePtr primitive, Cached(key, [&] {
                        const auto pd = c.Backprop<dnnl::convolution_backward_data>();
                        return std::make_shared<const Primitive>(
                            dnnl::convolution_backward_data(pd),
                            std::vector<Primitive::Arg>{{DNNL_ARG_DIFF_DST, c.output},
                                                        {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                                        {DNNL_ARG_DIFF_SRC, c.images},
                                                        Scratchpad(pd)});
                      }));
  return MakePlan(g, key, primitive, /*input=*/2, keeps_filter);
}

// Copies `count` rows of `floats` floats that start `stride` floats apart.
void CopyRows(const float* from, int64_t stride, int64_t count, int64_t floats, float* to) {
  for (int64_t i = 0; i < count; ++i) std::copy_n(from + i * stride, floats, to + i * floats);
}

// If `g` has only some of the filter's output channels, the output gradient and the result begin
// with the first of these. oneDNN's fast implementations need contiguous pixels, so the kernel then
// copies the output gradient.
absl::StatusOr<KernelPlan> ConvolutionBackpropFilter(const ConvolutionGeometry& g,
                                                     const ConvolutionGeometry& undivided) {
  const absl::string_view implementation = FastestImplementation(undivided);
  const std::string key = absl::StrCat(Key("convolution backprop filter", g), " ", implementation);
  MF_ASSIGN_OR_RETURN(
      const PrimitivePtr primitive, Cached(key, [&] {
        const Convolution c(g, implementation);
        const auto pd = c.Backprop<dnnl::convolution_backward_weights>();
        return std::make_shared<const Primitive>(
            dnnl::convolution_backward_weights(pd),
            std::vector<Primitive::Arg>{{DNNL_ARG_SRC, c.images},
                                        {DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc()},
                                        {DNNL_ARG_DIFF_DST, c.output},
                                        Scratchpad(pd)});
      }));
  ConvolutionGeometry from_first = g;
  from_first.first_channel = 0;
  MF_ASSIGN_OR_RETURN(
      Reorder::Ptr reorder,
      Reorder::Create(absl::StrCat("reorder for ", key, " of ", g.filter_channels, " channels"),
                      primitive->desc(1), PlainFilter(from_first)));
  Scratch scratch;
  const StagedOperand gradient(std::move(reorder), primitive->desc(1), &scratch);
  const int64_t pad = scratch.Add(primitive->desc(3));
  const bool is_part = g.out_channels < g.filter_channels;
  const int64_t pixels = is_part ? scratch.Add(primitive->desc(2)) : 0;
  const int64_t bytes = scratch.bytes();
  return KernelPlan{
      .kernel = MakeKernel([=](const KernelArgs& args, Lane& lane) -> absl::Status {
        std::byte* const start = Scratch::Start(args, bytes);
        float* const out = args.output<float>(0);
        const float* output_gradient = args.input<float>(2);
        if (is_part) {
          auto* const contiguous = reinterpret_cast<float*>(start + pixels);
          CopyRows(output_gradient, g.filter_channels, g.batch * g.h.out * g.w.out, g.out_channels,
                   contiguous);
          output_gradient = contiguous;
        }
        MF_RETURN_IF_ERROR(primitive->Run(lane, {args.input<float>(0), gradient.Address(out, start),
                                                 output_gradient, start + pad}));
        return gradient.Store(lane, start, out);
      }),
      .scratch_bytes = bytes};
}

// Returns the matrix product that computes a gradient of a 1x1 convolution, if that is faster. It
// is for few pixels and many channels, because a product reads and writes the filter in the graph's
// layout. Only AVX-512 has fast products of any layout (product.h).
std::optional<ProductGeometry> FastProduct(ConvolutionPart part, const ConvolutionGeometry& g) {
  constexpr int64_t kMaxPixels = 256, kMinWeights = int64_t{1} << 18;
  const int64_t pixels = g.batch * g.h.out * g.w.out;
  if (part == ConvolutionPart::kForward || !IsPointwise(g) || pixels > kMaxPixels ||
      g.in_channels * g.out_channels < kMinWeights || !HasAvx512()) {
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

absl::StatusOr<KernelPlan> OneDnnConvolution(ConvolutionPart part,
                                             const ConvolutionGeometry& convolution,
                                             const ConvolutionGeometry& undivided,
                                             bool keeps_filter, const Epilogue& epilogue) {
  MF_RETURN_IF_ERROR(CheckSizes(undivided));
  const auto simplified = [](const ConvolutionGeometry& g) {
    return IsPointwise(g) ? WithOneRow(g) : g;
  };
  const ConvolutionGeometry g = simplified(convolution), whole = simplified(undivided);
  if (FastProduct(part, whole).has_value()) {
    // The last bits of oneDNN's products depend on the number of columns (matmul.cc).
    if (g.out_channels < whole.out_channels) return absl::UnimplementedError("part of a product");
    return OneDnnProduct(*FastProduct(part, g),
                         keeps_filter && part == ConvolutionPart::kBackpropInput);
  }
  switch (part) {
    case ConvolutionPart::kForward:
      return ConvolutionForward(g, whole, keeps_filter, epilogue);
    case ConvolutionPart::kBackpropInput:
      return ConvolutionBackpropInput(g, whole, keeps_filter);
    case ConvolutionPart::kBackpropFilter:
      return ConvolutionBackpropFilter(g, whole);
  }
  return absl::UnimplementedError("unknown part of a convolution");
}

}  // namespace mirrorflow
