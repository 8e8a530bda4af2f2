// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/onednn_primitive.h"

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

// Descriptors of a convolution and its gradients.
struct Convolution {
  explicit Convolution(const ConvolutionGeometry& g)
      : images(FloatImages(g.nchw, g.batch, g.in_channels, g.h.in, g.w.in)),
        filter(FloatFilter(g)),
        output(FloatImages(g.nchw, g.batch, g.out_channels, g.h.out, g.w.out)),
        strides({g.h.stride, g.w.stride}),
        dilates({g.h.dilation - 1, g.w.dilation - 1}),
        before({g.h.before, g.w.before}),
        after({g.h.after(), g.w.after()}) {}

  // An empty `bias` means no bias.
  dnnl::convolution_forward::primitive_desc Forward(const memory::desc& bias = {}) const {
    return {{dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, images, filter,
             bias, output, strides, dilates, before, after},
            Attributes(),
            Engine()};
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
// Returns a kernel that converts the filter (input 1) to oneDNN's layout, then runs `primitive` on
// input `input`, the filter, output 0 and the bias (input 2), if the geometry has one.
// If `keeps_filter` is true, the kernel expects the converted filter as a form instead.
absl::StatusOr<KernelPlan> WithReorderedFilter(const ConvolutionGeometry& g, const std::string& key,
                                               const PrimitivePtr& primitive, int input,
                                               bool keeps_filter) {
  const memory::desc plain = PlainFilter(g);
  MF_ASSIGN_OR_RETURN(const PrimitivePtr reorder,
                      Reorder(absl::StrCat("reorder for ", key), plain, primitive->desc(1)));
  const bool has_form = keeps_filter && reorder != nullptr;
  const bool reorders = !has_form && reorder != nullptr;
  Scratch scratch;
  const int64_t filter = reorders ? scratch.Add(primitive->desc(1)) : 0;
  const int64_t reorder_pad = reorders ? scratch.Add(reorder->desc(2)) : 0;
  const int64_t pad = scratch.Add(primitive->desc(3));
  const int64_t bytes = scratch.bytes();
  const bool bias = g.bias;
  std::vector<OperandForm> forms;
  if (has_form) forms.push_back(FormOf(key, reorder, /*transposed=*/false));
  return KernelPlan{
      .kernel = MakeKernel([=](const KernelArgs& args, Lane& lane) -> absl::Status {
        std::byte* const start = Scratch::Start(args, bytes);
        const void* weights = args.input<float>(1);
        if (reorders) {
          MF_RETURN_IF_ERROR(reorder->Run(lane, {weights, start + filter, start + reorder_pad}));
          weights = start + filter;
        }
        const float* const in = args.input<float>(input);
        float* const out = args.output<float>(0);
        if (!bias) return primitive->Run(lane, {in, weights, out, start + pad});
        return primitive->Run(lane, {in, weights, out, start + pad, args.input<float>(2)});
      }),
      .scratch_bytes = bytes,
      .forms = std::move(forms)};
}
absl::StatusOr<KernelPlan> ConvolutionForward(const ConvolutionGeometry& g, bool keeps_filter) {
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
  return WithReorderedFilter(g, key, primitive, /*input=*/0, keeps_filter);
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
  MF_ASSIGN_OR_RETURN(const PrimitivePtr reorder,
                      Reorder(absl::StrCat("reorder for ", key), primitive->desc(1), plain));
  Scratch scratch;
  const int64_t filter = scratch.Add(primitive->desc(1));
  const int64_t reorder_pad = reorder != nullptr ? scratch.Add(reorder->desc(2)) : 0;
  const int64_t pad = scratch.Add(primitive->desc(3));
  const int64_t bytes = scratch.bytes();
  return KernelPlan{.kernel = MakeKernel([=](const KernelArgs& args, Lane& lane) -> absl::Status {
                      std::byte* const start = Scratch::Start(args, bytes);
                      void* const out = args.output<float>(0);
                      void* const gradient = reorder != nullptr ? start + filter : out;
                      MF_RETURN_IF_ERROR(primitive->Run(lane, {args.input<float>(0), gradient,
                                                               args.input<float>(2), start + pad}));
                      if (reorder == nullptr) return absl::OkStatus();
                      return reorder->Run(lane, {gradient, out, start + reorder_pad});
                    }),
                    .scratch_bytes = bytes};
}

}  // namespace

absl::StatusOr<KernelPlan> OneDnnConvolution(ConvolutionPart part, const ConvolutionGeometry& g,
                                             bool keeps_filter) {
  MF_RETURN_IF_ERROR(CheckSizes(g));
  switch (part) {
    case ConvolutionPart::kForward:
      return ConvolutionForward(g, keeps_filter);
    case ConvolutionPart::kBackpropInput:
      return ConvolutionBackpropInput(g, keeps_filter);
    case ConvolutionPart::kBackpropFilter:
      return ConvolutionBackpropFilter(g);
  }
  return absl::UnimplementedError("unknown part of a convolution");
}

}  // namespace mirrorflow
