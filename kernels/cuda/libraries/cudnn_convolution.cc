// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/cudnn_convolution.h"

#include <cudnn.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/core/buffer.h"
#include "framework/core/log.h"
#include "framework/core/status.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/device/cuda_status.h"
#include "kernels/cuda/libraries/autotune.h"
#include "kernels/cuda/libraries/code_text.h"
#include "kernels/cuda/libraries/cudnn_backend.h"
#include "kernels/cuda/libraries/program.h"
#include "ops/conv2d.h"
#include "ops/fused_ops.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

using Geometry = ConvolutionGeometry;

std::atomic<int64_t> num_failures = 0;

// How many of the library's proposals autotune tries.
constexpr int kMaxTried = 8;
constexpr int64_t kAlignment = 256;  // of each part of the scratch memory

// Returns whether the padding is the same on both sides. If not, the images are copied into padded
// ones, because few of the library's engines support asymmetric padding, and often only one does if
// floats must not be rounded.
bool IsSymmetric(const Window& w) {
  return 1 + (w.in + 2 * w.before - w.extent()) / w.stride == w.out;
}

// Returns the expression for the offset of element `i` of the filter [h, w, in, out] in the
// library's filter: [out, h, w, in], or [out, in, h, w] for channels-first images.
std::string FilterOffset(const Geometry& g) {
  const int64_t in = g.in_channels / g.groups, h = g.h.size, w = g.w.size;
  const bool first = g.nchw;
  return OffsetText("i", {{h, first ? w : w * in},
                          {w, first ? 1 : in},
                          {in, first ? h * w : 1},
                          {g.out_channels, h * w * in}});
}

// Returns the expression for the offset of element `i` of the images in the padded images.
std::string PaddedOffset(const Geometry& g) {
  const int64_t rows = g.h.in + g.h.before + g.h.after();
  const int64_t columns = g.w.in + g.w.before + g.w.after(), c = g.in_channels;
  if (g.nchw) {
    return OffsetText(
        "i", {{g.batch, c * rows * columns}, {c, rows * columns}, {g.h.in, columns}, {g.w.in, 1}},
        g.h.before * columns + g.w.before);
  }
  return OffsetText("i",
                    {{g.batch, rows * columns * c}, {g.h.in, columns * c}, {g.w.in, c}, {c, 1}},
                    (g.h.before * columns + g.w.before) * c);
}

// Returns the geometry of the padded images.
Geometry Padded(Geometry g) {
  for (Window* window : {&g.h, &g.w}) {
    window->in += window->before + window->after();
    window->before = 0;
  }
  return g;
}

int64_t ImagesElements(const Geometry& g) { return g.batch * g.h.in * g.w.in * g.in_channels; }
int64_t OutputElements(const Geometry& g) { return g.batch * g.h.out * g.w.out * g.out_channels; }
int64_t FilterElements(const Geometry& g) {
  return g.h.size * g.w.size * g.in_channels / g.groups * g.out_channels;
}

class ConvolutionKernel final : public Kernel {
 public:
  absl::Status Make(const KernelContext& c, const Geometry& g, ConvolutionPart part) {
    pads_ = !IsSymmetric(g.h) || !IsSymmetric(g.w);
    CudnnConvolution convolution = {
        .part = part, .geometry = pads_ ? Padded(g) : g, .allow_tf32 = c.options().allow_tf32};
    switch (c.output_dtype(0)) {
      case DT_HALF:
        convolution.type = CUDNN_DATA_HALF;
        break;
      case DT_BFLOAT16:
        convolution.type = CUDNN_DATA_BFLOAT16;
        break;
      case DT_FLOAT:
        convolution.type = CUDNN_DATA_FLOAT;
        break;
      default:
        return UnsupportedDataType(c.output_dtype(0));
    }
    if (g.bias) {
      convolution.epilogue = HasRelu(c) ? CudnnEpilogue::kBiasAndRelu : CudnnEpilogue::kBias;
    }
    absl::Status chosen = Choose(c, convolution);
    if (g.bias && absl::IsUnimplemented(chosen)) {
      convolution.epilogue = CudnnEpilogue::kNone;
      chosen = Choose(c, convolution);
    }
    MF_RETURN_IF_ERROR(chosen);
    part_ = part;
    fuses_bias_ = convolution.epilogue != CudnnEpilogue::kNone;
    AddCopies(c, g);
    return absl::OkStatus();
  }

  int64_t scratch_bytes() const {
    return workspace_at_ + static_cast<int64_t>(engine_->workspace_bytes);
  }

  absl::Status Run(const KernelArgs& args, Lane& lane) const override {
    char* const scratch = args.scratch<char>();
    char *const filter = scratch, *const padded = scratch + padded_at_;
    char* const out = args.output<char>(0);
    // Copy the plan's filter to the library's layout, unless the filter is the result.
    if (part_ != ConvolutionPart::kBackpropFilter) {
      MF_RETURN_IF_ERROR(to_library_->Launch(lane, filter_grid_, args.input<char>(1), filter));
    }
    CudnnOperands operands = {.filter = filter, .workspace = scratch + workspace_at_};
    if (part_ == ConvolutionPart::kBackpropInput) {
      operands.images = pads_ ? padded : out;
    } else if (pads_) {
      MF_RETURN_IF_ERROR(clear_->Launch(lane, padded_grid_, padded));
      MF_RETURN_IF_ERROR(pad_->Launch(lane, images_grid_, args.input<char>(0), padded));
      operands.images = padded;
    } else {
      operands.images = Mutable(args.input<char>(0));
    }
    operands.output = part_ == ConvolutionPart::kForward ? out : Mutable(args.input<char>(2));
    if (fuses_bias_) operands.bias = Mutable(args.input<char>(2));
    MF_RETURN_IF_ERROR(
        lane.Library<CudnnLane>().Execute(StreamOf(lane), engine_, BindingsOf(operands)));
    switch (part_) {
      case ConvolutionPart::kForward:
        if (add_bias_ == nullptr) return absl::OkStatus();
        return add_bias_->Launch(lane, output_grid_, args.input<char>(2), out);
      case ConvolutionPart::kBackpropInput:
        if (!pads_) return absl::OkStatus();
        return crop_->Launch(lane, images_grid_, padded, out);
      case ConvolutionPart::kBackpropFilter:
        return from_library_->Launch(lane, filter_grid_, filter, out);
    }
    return absl::OkStatus();
  }

 private:
  // The library takes mutable addresses even for data that it only reads.
  static char* Mutable(const char* read) { return const_cast<char*>(read); }

  // Turns the library's failure into Unimplemented, so that another kernel is used instead, and
  // warns once per process. If CUDA has a pending error, returns that error, because the other
  // kernel would also fail.
  static absl::Status WhyNotProposed(const absl::Status& failure) {
    if (absl::IsUnimplemented(failure)) return failure;
    MF_RETURN_IF_CUDA_ERROR(cudaGetLastError());
    if (num_failures++ == 0) {
      LogWarning(
          absl::StrCat("a convolution runs without cuDNN, which failed: ", failure.ToString()));
    }
    return absl::UnimplementedError(failure.message());
  }

  absl::Status Choose(const KernelContext& c, const CudnnConvolution& convolution) {
    const bool tunes = c.tuning() != nullptr;
    MF_ASSIGN_OR_RETURN(const CudnnDescriptor gpu, PropertiesOfGpu());
    const auto proposals = ProposeEngines(convolution, gpu, tunes ? kMaxTried : 1);
    if (!proposals.ok()) return WhyNotProposed(proposals.status());
    const auto& proposed = *proposals;
    int choice = 0;
    if (tunes) {
      MF_ASSIGN_OR_RETURN(
          choice,
          ChooseProposal(
              c, absl::StrCat("cuDNN ", cudnnGetVersion()), static_cast<int>(proposed.size()),
              [&] { return Fastest(convolution, DataTypeSize(c.output_dtype(0)), proposed); }));
    }
    engine_ = proposed[choice];
    return absl::OkStatus();
  }

  static absl::StatusOr<int> Fastest(const CudnnConvolution& convolution, size_t element_bytes,
                                     const CudnnProposals& proposed) {
    size_t workspace_bytes = 0;
    for (const auto& each : proposed) {
      workspace_bytes = std::max(workspace_bytes, each->workspace_bytes);
    }
    const Geometry& g = convolution.geometry;
    MF_ASSIGN_OR_RETURN(const TrialMemory images,
                        AllocateForTrial(ImagesElements(g) * element_bytes));
    MF_ASSIGN_OR_RETURN(const TrialMemory filter,
                        AllocateForTrial(FilterElements(g) * element_bytes));
    MF_ASSIGN_OR_RETURN(const TrialMemory output,
                        AllocateForTrial(OutputElements(g) * element_bytes));
    MF_ASSIGN_OR_RETURN(const TrialMemory bias, AllocateForTrial(g.out_channels * element_bytes));
    MF_ASSIGN_OR_RETURN(const TrialMemory workspace, AllocateForTrial(workspace_bytes));
    const bool fuses_bias = convolution.epilogue != CudnnEpilogue::kNone;
    const CudnnOperands operands = {.images = images.get(),
                                    .filter = filter.get(),
                                    .output = output.get(),
                                    .bias = fuses_bias ? bias.get() : nullptr,
                                    .workspace = workspace.get()};
    CudnnLane lane;
    return FastestWay(static_cast<int>(proposed.size()), [&](int i, cudaStream_t stream) {
      return lane.Execute(stream, proposed[i], BindingsOf(operands));
    });
  }

  // Adds the functions that copy operands to the library's layout and padding. Assigns scratch
  // memory to the filter, the padded images and the workspace.
  void AddCopies(const KernelContext& c, const Geometry& g) {
    CudaProgram& program = ProgramOf(c);
    const std::string type = CudaType(c.output_dtype(0));
    const auto add = [&](int64_t n, absl::string_view body) {
      return program.Add({.parameters = absl::StrCat("const ", type, "* from, ", type, "* to"),
                          .body = absl::StrCat("ForEach<", n, ">([&](auto i) { ", body, " });"),
                          .includes = {"math.cuh"}});
    };
    const auto element_bytes = static_cast<int64_t>(DataTypeSize(c.output_dtype(0)));
    const int64_t filter = FilterElements(g);
    filter_grid_ = ElementwiseGrid(filter);
    const std::string at = FilterOffset(g);
    to_library_ = add(filter, absl::StrCat("to[", at, "] = from[i];"));
    from_library_ = add(filter, absl::StrCat("to[i] = from[", at, "];"));
    workspace_at_ = padded_at_ = static_cast<int64_t>(AlignUp(filter * element_bytes, kAlignment));
    if (pads_) {
      const int64_t images = ImagesElements(g), padded = ImagesElements(Padded(g));
      workspace_at_ += static_cast<int64_t>(AlignUp(padded * element_bytes, kAlignment));
      images_grid_ = ElementwiseGrid(images);
      padded_grid_ = ElementwiseGrid(padded);
      const std::string inside = PaddedOffset(g);
      pad_ = add(images, absl::StrCat("to[", inside, "] = from[i];"));
      crop_ = add(images, absl::StrCat("to[i] = from[", inside, "];"));
      clear_ = program.Add(
          {.parameters = absl::StrCat(type, "* to"),
           .body = absl::StrCat("ForEach<", padded, ">([&](auto i) { to[i] = {}; });")});
    }
    if (g.bias && !fuses_bias_) {
      const int64_t n = c.output_shape(0).num_elements();
      output_grid_ = ElementwiseGrid(n);
      add_bias_ = add(n, absl::StrCat("to[i] = Store<", type, ">(", HasRelu(c) ? "op::Relu" : "",
                                      "(Load(to[i]) + Load(from[i % ", g.out_channels, "])));"));
    }
  }

  ConvolutionPart part_ = ConvolutionPart::kForward;
  bool pads_ = false;        // whether the images are copied into padded ones
  bool fuses_bias_ = false;  // whether the engine adds the bias and applies the node's Relu, if any
  std::shared_ptr<const CudnnEngine> engine_;
  int64_t padded_at_ = 0, workspace_at_ = 0;
  const CudaFunction *to_library_ = nullptr, *from_library_ = nullptr;
  const CudaFunction *pad_ = nullptr, *crop_ = nullptr, *clear_ = nullptr, *add_bias_ = nullptr;
  CudaGrid filter_grid_, images_grid_, padded_grid_, output_grid_;
};

}  // namespace

int64_t NumCudnnFailures() { return num_failures.load(); }

bool HasRelu(const KernelContext& c) {
  return c.node().op().name == ops::Fused(ops::kConv2D, {.activation = ops::kRelu});
}

absl::StatusOr<KernelPlan> MakeCudnnConvolution(const KernelContext& c, const Geometry& geometry,
                                                ConvolutionPart part) {
  auto kernel = std::make_unique<ConvolutionKernel>();
  MF_RETURN_IF_ERROR(kernel->Make(c, geometry, part));
  const int64_t scratch_bytes = kernel->scratch_bytes();
  return KernelPlan{.kernel = std::move(kernel), .scratch_bytes = scratch_bytes};
}

}  // namespace mirrorflow
