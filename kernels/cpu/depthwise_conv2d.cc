// SPDX-License-Identifier: Apache-2.0
//
// DepthwiseConv2dNative and its gradients on the CPU. DirectDepthwise computes the usual float
// convolutions, and oneDNN other ones and gradients that it supports. For the rest, all three ops
// visit the same triples of an image pixel, a filter tap and an output pixel, and each op
// accumulates into a different member of the triple.
#include "ops/depthwise_conv2d.h"

#include <algorithm>

#include "framework/core/status.h"
#include "kernels/cpu/bias.h"
#include "kernels/cpu/direct_depthwise.h"
#include "kernels/cpu/epilogue.h"
#include "kernels/cpu/height_part.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/type_list.h"
#include "kernels/cpu/vectorize.h"
#include "ops/fused_ops.h"
#include "ops/window.h"

namespace mirrorflow {
namespace {

struct Geometry {
  int64_t batch;
  int64_t channels;
  int64_t each;  // filters per channel
  Window h;
  Window w;
  bool nchw;

  int64_t out_channels() const { return channels * each; }
  int64_t image_size() const { return h.in * w.in * channels; }
  int64_t output_size() const { return h.out * w.out * out_channels(); }
};

// Calls fn(pixel, tap, out) for each triple, with the element offsets of channel 0.
template <typename Fn>
void ForEachTap(const Geometry& g, Fn fn) {
  const int64_t pixel_step = g.nchw ? 1 : g.channels, out_step = g.nchw ? 1 : g.out_channels();
  for (int64_t n = 0; n < g.batch; ++n) {
    for (int64_t y = 0; y < g.h.out; ++y) {
      for (int64_t x = 0; x < g.w.out; ++x) {
        const int64_t out = n * g.output_size() + (y * g.w.out + x) * out_step;
        for (int64_t i = g.h.first_tap(y); i < g.h.last_tap(y); ++i) {
          for (int64_t j = g.w.first_tap(x); j < g.w.last_tap(x); ++j) {
            const int64_t iy = g.h.start(y) + i * g.h.dilation;
            const int64_t ix = g.w.start(x) + j * g.w.dilation;
            fn(n * g.image_size() + (iy * g.w.in + ix) * pixel_step,
               (i * g.w.size + j) * g.out_channels(), out);
          }
        }
      }
    }
  }
}

// Calls add(pixel, tap, out) with references to elements, for all channels of all triples.
template <typename Pixel, typename Tap, typename Out, typename Add>
void Walk(const Geometry& g, Pixel* images, Tap* filter, Out* outputs, Add add) {
  if (!g.nchw && g.each == 1) {
    ForEachTap(g, [&](int64_t pixel, int64_t tap, int64_t out) {
      Pixel* const p = images + pixel;
      Tap* const t = filter + tap;
      Out* const o = outputs + out;
      MF_INDEPENDENT_ITERATIONS
      for (int64_t c = 0; c < g.channels; ++c) add(p[c], t[c], o[c]);
    });
    return;
  }
  const int64_t pixel_step = g.nchw ? g.h.in * g.w.in : 1;
  const int64_t out_step = g.nchw ? g.h.out * g.w.out : 1;
  ForEachTap(g, [&](int64_t pixel, int64_t tap, int64_t out) {
    for (int64_t c = 0, k = 0; c < g.channels; ++c) {
      for (int64_t m = 0; m < g.each; ++m, ++k) {
        add(images[pixel + c * pixel_step], filter[tap + k], outputs[out + k * out_step]);
      }
    }
  });
}

template <typename T>
void Run(ConvolutionPart part, const Geometry& g, const KernelArgs& args, int64_t out_elements) {
  T* const result = args.output<T>(0);
  std::fill_n(result, out_elements, T{0});
  switch (part) {
    case ConvolutionPart::kForward:
      return Walk(g, args.input<T>(0), args.input<T>(1), result,
                  [](T pixel, T tap, T& out) MF_INLINE { out += pixel * tap; });
    case ConvolutionPart::kBackpropInput:
      return Walk(g, result, args.input<T>(1), args.input<T>(2),
                  [](T& pixel, T tap, T out) MF_INLINE { pixel += out * tap; });
    case ConvolutionPart::kBackpropFilter:
      return Walk(g, args.input<T>(0), result, args.input<T>(2),
                  [](T pixel, T& tap, T out) MF_INLINE { tap += pixel * out; });
  }
}

KernelPlan DirectPlan(const Geometry& g, bool bias, const Epilogue& epilogue) {
  const DirectDepthwise convolution = {
      .batch = g.batch, .channels = g.channels, .h = g.h, .w = g.w, .epilogue = epilogue};
  return {.kernel = MakeKernel([convolution, bias](const KernelArgs& args) {
            const bool adds = convolution.epilogue.adds();
            convolution.Run(
                args.input<float>(0), args.input<float>(1), bias ? args.input<float>(2) : nullptr,
                adds ? args.input<float>(Epilogue::kAddendInput) : nullptr, args.output<float>(0));
          })};
}

template <ConvolutionPart part>
absl::StatusOr<KernelPlan> Create(const KernelContext& c) {
  const ConvolutionShapes shapes = ShapesOf(part, HeightPart::Undivided(c));
  const auto& [images, filter, output] = shapes;
  MF_ASSIGN_OR_RETURN(const WindowAttrs attrs, ReadWindowAttrs(c.node()));
  Geometry g = {.batch = images.dim(0),
                .channels = filter.dim(2),
                .each = filter.dim(3),
                .h = WindowOf(attrs, 0, images, output, filter.dim(0)),
                .w = WindowOf(attrs, 1, images, output, filter.dim(1)),
                .nchw = attrs.layout.nchw()};
  const HeightPart rows(c, g.batch, g.nchw, g.h);
  g.h = rows.window();
  const int64_t elements = c.output_shape(0).num_elements();
  absl::StatusOr<KernelPlan> plan = absl::UnimplementedError("oneDNN was not tried");
  const Epilogue epilogue = Epilogue::Of(c.node());
  // The op as a convolution with one group per channel, whose filter has the same layout.
  const ConvolutionGeometry convolution = {.batch = g.batch,
                                           .in_channels = g.channels,
                                           .out_channels = g.out_channels(),
                                           .h = g.h,
                                           .w = g.w,
                                           .nchw = g.nchw,
                                           .groups = g.channels,
                                           .bias = c.node().input_index(ops::kFusedBias) >= 0};
  const bool is_float = c.output_dtype(0) == DT_FLOAT && !shapes.AnyEmpty();
  if (is_float && part == ConvolutionPart::kForward && !g.nchw && g.each == 1 &&
      DirectDepthwise::Supports(g.channels)) {
    plan = DirectPlan(g, convolution.bias, epilogue);
  } else if (is_float) {
    plan = OneDnnConvolution(part, convolution, convolution, c.changes_rarely(1), epilogue);
  }
  if (absl::IsUnimplemented(plan.status())) {
    plan = ForType(FloatingTypes(), c.output_dtype(0), [&]<typename T>(TypeTag<T>) {
      return KernelPlan{.kernel = MakeKernel([g, elements](const KernelArgs& args) {
                          Run<T>(part, g, args, elements);
                        })};
    });
    if (plan.ok() && convolution.bias) {
      plan = ThenRun(epilogue,
                     ThenAddBias(*std::move(plan), elements / g.out_channels(), g.out_channels()),
                     elements);
    }
  }
  MF_RETURN_IF_ERROR(plan.status());
  plan->flops = ShapesOf(part, c).Flops(g.h.size * g.w.size);
  if (part == ConvolutionPart::kForward) {
    rows.Complete(epilogue.adds(), /*multiple=*/1, &*plan);
  }
  return plan;
}

}  // namespace

void RegisterDepthwiseConv2dCpu(KernelRegistry& kernels) {
  kernels.Register(ops::kDepthwiseConv2dNative, "CPU", Create<ConvolutionPart::kForward>);
  for (const std::string& op : ops::FusedVariants(ops::kDepthwiseConv2dNative)) {
    kernels.Register(op, "CPU", Create<ConvolutionPart::kForward>);
  }
  kernels.Register("DepthwiseConv2dNativeBackpropFilter", "CPU",
                   Create<ConvolutionPart::kBackpropFilter>);
  kernels.Register("DepthwiseConv2dNativeBackpropInput", "CPU",
                   Create<ConvolutionPart::kBackpropInput>);
}

}  // namespace mirrorflow
