// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cudnn_convolution.h"

#include <cudnn.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "kernels/cuda/autotune.h"
#include "kernels/cuda/code_text.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/program.h"
#include "ops/conv2d.h"
#include "ops/fused_ops.h"

namespace mirrorflow {
namespace {

using Geometry = ConvolutionGeometry;

constexpr size_t kMaxWorkspaceBytes = size_t{256} << 20;
constexpr int64_t kAlignment = 256;  // of the parts of scratch

absl::Status CudnnStatus(cudnnStatus_t status, absl::string_view call) {
  if (status == CUDNN_STATUS_SUCCESS) [[likely]]
    return absl::OkStatus();
  const std::string message = absl::StrCat(call, ": ", cudnnGetErrorString(status));
  // Many codes mean that something is not supported; they are numbered from this one on.
  if (status >= CUDNN_STATUS_NOT_SUPPORTED && status < CUDNN_STATUS_INTERNAL_ERROR) {
    return absl::UnimplementedError(message);
  }
  return absl::InternalError(message);
}
#define MF_RETURN_IF_CUDNN_ERROR(call) MF_RETURN_IF_ERROR(CudnnStatus((call), #call))

// The handle of a lane, or a handle without a lane for plans: the heuristic depends only on the
// kind of GPU.
class Handle {
 public:
  ~Handle() {
    if (handle_ != nullptr) cudnnDestroy(handle_);
  }
  absl::StatusOr<cudnnHandle_t> Get(cudaStream_t stream) {
    if (handle_ != nullptr) return handle_;
    MF_RETURN_IF_CUDNN_ERROR(cudnnCreate(&handle_));
    MF_RETURN_IF_CUDNN_ERROR(cudnnSetStream(handle_, stream));
    return handle_;
  }

 private:
  cudnnHandle_t handle_ = nullptr;
};

// Owns a descriptor of the library.
template <typename T, cudnnStatus_t (*kCreate)(T*), cudnnStatus_t (*kDestroy)(T)>
class Descriptor {
 public:
  Descriptor() = default;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (descriptor_ != nullptr) kDestroy(descriptor_);
  }
  absl::Status Create() { return CudnnStatus(kCreate(&descriptor_), "creating a descriptor"); }
  T get() const { return descriptor_; }

 private:
  T descriptor_ = nullptr;
};
using TensorDescriptor =
    Descriptor<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;
using FilterDescriptor =
    Descriptor<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor>;
using ConvolutionDescriptor =
    Descriptor<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor,
               cudnnDestroyConvolutionDescriptor>;

// Whether the padding is the same on both sides, as the library requires. If not, the images are
// copied into padded ones.
bool IsSymmetric(const Window& w) {
  return 1 + (w.in + 2 * w.before - w.extent()) / w.stride == w.out;
}

// The offset of element `i` of the filter [h, w, in, out] in the library's filter: [out, h, w, in],
// or [out, in, h, w] for images with channels first.
std::string FilterOffset(const Geometry& g) {
  const int64_t in = g.in_channels / g.groups, h = g.h.size, w = g.w.size;
  const bool first = g.nchw;
  return OffsetText("i", {{h, first ? w : w * in},
                          {w, first ? 1 : in},
                          {in, first ? h * w : 1},
                          {g.out_channels, h * w * in}});
}

// The offset of element `i` of the images in images with room for all padding.
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

class ConvolutionKernel final : public Kernel {
 public:
  absl::Status Make(const KernelContext& c, const Geometry& g, ConvolutionPart part) {
    part_ = part;
    switch (c.output_dtype(0)) {
      case DT_HALF:
        type_ = CUDNN_DATA_HALF;
        break;
      case DT_BFLOAT16:
        type_ = CUDNN_DATA_BFLOAT16;
        break;
      case DT_FLOAT:
        type_ = CUDNN_DATA_FLOAT;
        break;
      default:
        return UnsupportedDataType(c.output_dtype(0));
    }
    element_ = static_cast<int64_t>(DataTypeSize(c.output_dtype(0)));
    MF_RETURN_IF_ERROR(Describe(g, c.options().allow_tf32));
    MF_RETURN_IF_ERROR(Choose(c, g));
    AddCopies(c, g);
    return absl::OkStatus();
  }

  int64_t scratch_bytes() const {
    return workspace_at_ + static_cast<int64_t>(chosen_.workspace_bytes);
  }

  absl::Status Run(const KernelArgs& args, Lane& lane) const override {
    MF_ASSIGN_OR_RETURN(cudnnHandle_t handle, lane.Library<Handle>().Get(StreamOf(lane)));
    char* const scratch = args.scratch<char>();
    char *const filter = scratch, *const padded = scratch + padded_at_;
    char* const workspace = scratch + workspace_at_;
    char* const out = args.output<char>(0);
    // Copies the plan's filter to the library's layout, unless the filter is the result.
    if (part_ != ConvolutionPart::kBackpropFilter) {
      MF_RETURN_IF_ERROR(to_library_->Launch(lane, filter_grid_, args.input<char>(1), filter));
    }
    const char* images = part_ == ConvolutionPart::kBackpropInput ? nullptr : args.input<char>(0);
    if (pad_ != nullptr && images != nullptr) {
      MF_RETURN_IF_ERROR(clear_->Launch(lane, padded_grid_, padded));
      MF_RETURN_IF_ERROR(pad_->Launch(lane, images_grid_, images, padded));
      images = padded;
    }
    char* const to = part_ == ConvolutionPart::kBackpropInput && pad_ != nullptr ? padded : out;
    const char* const gradient = part_ == ConvolutionPart::kForward ? nullptr : args.input<char>(2);
    MF_RETURN_IF_ERROR(Convolve(handle, chosen_, images, filter, gradient, to, workspace));
    switch (part_) {
      case ConvolutionPart::kForward:
        if (add_bias_ == nullptr) return absl::OkStatus();
        return add_bias_->Launch(lane, output_grid_, args.input<char>(2), out);
      case ConvolutionPart::kBackpropInput:
        if (pad_ == nullptr) return absl::OkStatus();
        return crop_->Launch(lane, images_grid_, to, out);
      case ConvolutionPart::kBackpropFilter:
        return from_library_->Launch(lane, filter_grid_, filter, out);
    }
    return absl::OkStatus();
  }

 private:
  // An algorithm of the library; `number` is a value of the enum for this part of the convolution.
  // The workspace suffices only with its math type.
  struct Algorithm {
    int number;
    cudnnMathType_t math;
    size_t workspace_bytes;
  };

  // Must precede Convolve with the algorithm.
  absl::Status SetMathOf(const Algorithm& algorithm) const {
    MF_RETURN_IF_CUDNN_ERROR(cudnnSetConvolutionMathType(convolution_.get(), algorithm.math));
    return absl::OkStatus();
  }

  // Calls the library. `result` is where the result goes; the gradient of a filter goes to `filter`
  // instead.
  absl::Status Convolve(cudnnHandle_t handle, const Algorithm& algorithm, const void* images,
                        void* filter, const void* gradient, void* result, void* workspace) const {
    const float one = 1, zero = 0;
    const size_t bytes = algorithm.workspace_bytes;
    switch (part_) {
      case ConvolutionPart::kForward:
        MF_RETURN_IF_CUDNN_ERROR(cudnnConvolutionForward(
            handle, &one, images_.get(), images, filter_.get(), filter, convolution_.get(),
            static_cast<cudnnConvolutionFwdAlgo_t>(algorithm.number), workspace, bytes, &zero,
            output_.get(), result));
        break;
      case ConvolutionPart::kBackpropInput:
        MF_RETURN_IF_CUDNN_ERROR(cudnnConvolutionBackwardData(
            handle, &one, filter_.get(), filter, output_.get(), gradient, convolution_.get(),
            static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm.number), workspace, bytes, &zero,
            images_.get(), result));
        break;
      case ConvolutionPart::kBackpropFilter:
        MF_RETURN_IF_CUDNN_ERROR(cudnnConvolutionBackwardFilter(
            handle, &one, images_.get(), images, output_.get(), gradient, convolution_.get(),
            static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm.number), workspace, bytes, &zero,
            filter_.get(), filter));
        break;
    }
    return absl::OkStatus();
  }

  absl::Status Describe(const Geometry& g, bool allow_tf32) {
    const cudnnTensorFormat_t format = g.nchw ? CUDNN_TENSOR_NCHW : CUDNN_TENSOR_NHWC;
    const auto size = [](int64_t n) { return static_cast<int>(n); };
    const bool pads = !IsSymmetric(g.h) || !IsSymmetric(g.w);
    const auto room = [&](const Window& w) { return w.in + (pads ? w.before + w.after() : 0); };
    padded_elements_ = pads ? g.batch * g.in_channels * room(g.h) * room(g.w) : 0;
    MF_RETURN_IF_ERROR(images_.Create());
    MF_RETURN_IF_CUDNN_ERROR(cudnnSetTensor4dDescriptor(images_.get(), format, type_, size(g.batch),
                                                        size(g.in_channels), size(room(g.h)),
                                                        size(room(g.w))));
    MF_RETURN_IF_ERROR(output_.Create());
    MF_RETURN_IF_CUDNN_ERROR(cudnnSetTensor4dDescriptor(output_.get(), format, type_, size(g.batch),
                                                        size(g.out_channels), size(g.h.out),
                                                        size(g.w.out)));
    MF_RETURN_IF_ERROR(filter_.Create());
    MF_RETURN_IF_CUDNN_ERROR(
        cudnnSetFilter4dDescriptor(filter_.get(), type_, format, size(g.out_channels),
                                   size(g.in_channels / g.groups), size(g.h.size), size(g.w.size)));
    MF_RETURN_IF_ERROR(convolution_.Create());
    MF_RETURN_IF_CUDNN_ERROR(cudnnSetConvolution2dDescriptor(
        convolution_.get(), pads ? 0 : size(g.h.before), pads ? 0 : size(g.w.before),
        size(g.h.stride), size(g.w.stride), size(g.h.dilation), size(g.w.dilation),
        CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    MF_RETURN_IF_CUDNN_ERROR(cudnnSetConvolutionGroupCount(convolution_.get(), size(g.groups)));
    // The algorithms that the library may propose. The default may use TensorFloat-32 for floats.
    exact_ = type_ == CUDNN_DATA_FLOAT && !allow_tf32;
    MF_RETURN_IF_CUDNN_ERROR(cudnnSetConvolutionMathType(
        convolution_.get(), exact_                      ? CUDNN_FMA_MATH
                            : type_ == CUDNN_DATA_FLOAT ? CUDNN_DEFAULT_MATH
                                                        : CUDNN_TENSOR_OP_MATH));
    return absl::OkStatus();
  }

  // The algorithms that are supported, deterministic, as precise as asked for and within
  // kMaxWorkspaceBytes, in the order of the library's preference.
  template <typename Perf>
  std::vector<Algorithm> Usable(const Perf* found, int count) const {
    std::vector<Algorithm> usable;
    for (int i = 0; i < count; ++i) {
      if (found[i].status == CUDNN_STATUS_SUCCESS && found[i].memory <= kMaxWorkspaceBytes &&
          found[i].determinism == CUDNN_DETERMINISTIC &&
          (!exact_ || found[i].mathType == CUDNN_FMA_MATH)) {
        usable.push_back({static_cast<int>(found[i].algo), found[i].mathType, found[i].memory});
      }
    }
    return usable;
  }

  absl::StatusOr<std::vector<Algorithm>> Propose(cudnnHandle_t handle) const {
    constexpr int kMost = 16;
    int count = 0;
    if (part_ == ConvolutionPart::kForward) {
      cudnnConvolutionFwdAlgoPerf_t found[kMost];
      MF_RETURN_IF_CUDNN_ERROR(cudnnGetConvolutionForwardAlgorithm_v7(
          handle, images_.get(), filter_.get(), convolution_.get(), output_.get(), kMost, &count,
          found));
      return Usable(found, count);
    }
    if (part_ == ConvolutionPart::kBackpropInput) {
      cudnnConvolutionBwdDataAlgoPerf_t found[kMost];
      MF_RETURN_IF_CUDNN_ERROR(cudnnGetConvolutionBackwardDataAlgorithm_v7(
          handle, filter_.get(), output_.get(), convolution_.get(), images_.get(), kMost, &count,
          found));
      return Usable(found, count);
    }
    cudnnConvolutionBwdFilterAlgoPerf_t found[kMost];
    MF_RETURN_IF_CUDNN_ERROR(cudnnGetConvolutionBackwardFilterAlgorithm_v7(
        handle, images_.get(), output_.get(), convolution_.get(), filter_.get(), kMost, &count,
        found));
    return Usable(found, count);
  }

  absl::Status Choose(const KernelContext& c, const Geometry& g) {
    // One handle for all plans. Takes a lock, because sessions make plans in threads of their own,
    // and a handle serves one thread at a time.
    static std::mutex* const mu = new std::mutex();
    static Handle* const for_plans = new Handle();
    std::lock_guard<std::mutex> lock(*mu);
    MF_ASSIGN_OR_RETURN(cudnnHandle_t handle, for_plans->Get(nullptr));
    MF_ASSIGN_OR_RETURN(const std::vector<Algorithm> proposed, Propose(handle));
    if (proposed.empty()) {
      return absl::UnimplementedError("cuDNN has no algorithm for this convolution");
    }
    int choice = 0;
    if (c.tuning() != nullptr) {
      MF_ASSIGN_OR_RETURN(choice, ChooseProposal(c, absl::StrCat("cuDNN ", cudnnGetVersion()),
                                                 static_cast<int>(proposed.size()),
                                                 [&] { return Fastest(g, proposed); }));
    }
    chosen_ = proposed[choice];
    return SetMathOf(chosen_);
  }

  absl::StatusOr<int> Fastest(const Geometry& g, const std::vector<Algorithm>& proposed) const {
    size_t workspace_bytes = 0;
    for (const Algorithm& each : proposed) {
      workspace_bytes = std::max(workspace_bytes, each.workspace_bytes);
    }
    const int64_t images_elements =
        std::max(padded_elements_, g.batch * g.h.in * g.w.in * g.in_channels);
    const int64_t output_elements = g.batch * g.h.out * g.w.out * g.out_channels;
    const int64_t filter_elements = g.h.size * g.w.size * g.in_channels * g.out_channels / g.groups;
    MF_ASSIGN_OR_RETURN(const TrialMemory images, AllocateForTrial(images_elements * element_));
    MF_ASSIGN_OR_RETURN(const TrialMemory output, AllocateForTrial(output_elements * element_));
    MF_ASSIGN_OR_RETURN(const TrialMemory filter, AllocateForTrial(filter_elements * element_));
    MF_ASSIGN_OR_RETURN(const TrialMemory workspace, AllocateForTrial(workspace_bytes));
    void* const result = part_ == ConvolutionPart::kBackpropInput ? images.get() : output.get();
    // A handle keeps the first stream that it gets.
    std::unique_ptr<Handle> own;
    cudaStream_t of = nullptr;
    return FastestWay(static_cast<int>(proposed.size()),
                      [&](int i, cudaStream_t stream) -> absl::Status {
                        if (own == nullptr || of != stream) own = std::make_unique<Handle>();
                        of = stream;
                        MF_ASSIGN_OR_RETURN(cudnnHandle_t handle, own->Get(stream));
                        MF_RETURN_IF_ERROR(SetMathOf(proposed[i]));
                        return Convolve(handle, proposed[i], images.get(), filter.get(),
                                        output.get(), result, workspace.get());
                      });
  }

  // Adds the functions that copy operands to the library's layout and padding. Places the filter,
  // the padded images and the workspace in scratch.
  void AddCopies(const KernelContext& c, const Geometry& g) {
    CudaProgram& program = ProgramOf(c);
    const std::string type = CudaType(c.output_dtype(0));
    const auto add = [&](int64_t n, absl::string_view body) {
      return program.Add({.parameters = absl::StrCat("const ", type, "* from, ", type, "* to"),
                          .body = absl::StrCat("ForEach<", n, ">([&](auto i) { ", body, " });"),
                          .includes = {"math.cuh"}});
    };
    const int64_t filter = g.h.size * g.w.size * g.in_channels / g.groups * g.out_channels;
    filter_grid_ = ElementwiseGrid(filter);
    const std::string at = FilterOffset(g);
    to_library_ = add(filter, absl::StrCat("to[", at, "] = from[i];"));
    from_library_ = add(filter, absl::StrCat("to[i] = from[", at, "];"));
    padded_at_ = RoundUp(filter * element_);
    workspace_at_ = padded_at_ + RoundUp(padded_elements_ * element_);
    if (padded_elements_ > 0) {
      const int64_t images = g.batch * g.h.in * g.w.in * g.in_channels;
      images_grid_ = ElementwiseGrid(images);
      padded_grid_ = ElementwiseGrid(padded_elements_);
      const std::string inside = PaddedOffset(g);
      pad_ = add(images, absl::StrCat("to[", inside, "] = from[i];"));
      crop_ = add(images, absl::StrCat("to[i] = from[", inside, "];"));
      clear_ = program.Add(
          {.parameters = absl::StrCat(type, "* to"),
           .body = absl::StrCat("ForEach<", padded_elements_, ">([&](auto i) { to[i] = {}; });")});
    }
    if (g.bias) {
      const int64_t n = c.output_shape(0).num_elements();
      output_grid_ = ElementwiseGrid(n);
      const bool relu = c.node().op().name == ops::WithBiasAndRelu(ops::kConv2D);
      add_bias_ = add(n, absl::StrCat("to[i] = Store<", type, ">(", relu ? "op::Relu" : "",
                                      "(Load(to[i]) + Load(from[i % ", g.out_channels, "])));"));
    }
  }

  static int64_t RoundUp(int64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  ConvolutionPart part_ = ConvolutionPart::kForward;
  cudnnDataType_t type_ = CUDNN_DATA_FLOAT;
  int64_t element_ = 4;
  bool exact_ = false;  // floats are not rounded to TensorFloat-32
  TensorDescriptor images_, output_;
  FilterDescriptor filter_;
  ConvolutionDescriptor convolution_;
  Algorithm chosen_ = {};
  int64_t padded_elements_ = 0, padded_at_ = 0, workspace_at_ = 0;
  const CudaFunction *to_library_ = nullptr, *from_library_ = nullptr;
  const CudaFunction *pad_ = nullptr, *crop_ = nullptr, *clear_ = nullptr, *add_bias_ = nullptr;
  CudaGrid filter_grid_, images_grid_, padded_grid_, output_grid_;
};

}  // namespace

absl::StatusOr<KernelPlan> MakeCudnnConvolution(const KernelContext& c, const Geometry& geometry,
                                                ConvolutionPart part) {
  auto kernel = std::make_unique<ConvolutionKernel>();
  MF_RETURN_IF_ERROR(kernel->Make(c, geometry, part));
  const int64_t scratch_bytes = kernel->scratch_bytes();
  return KernelPlan{.kernel = std::move(kernel), .scratch_bytes = scratch_bytes};
}

}  // namespace mirrorflow
