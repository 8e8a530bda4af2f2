// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cudnn_graph.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "framework/core/buffer.h"
#include "framework/core/status.h"
#include "kernels/cuda/cuda_status.h"

namespace mirrorflow {
namespace {

// The ids of the tensors in a graph. Virtual ones exist only within an engine.
enum Id : int64_t { kImages = 1, kFilter, kOutput, kBias, kConvolved, kBiased };

// Dimensions in the library's order: batch or output channels, channels, height, width.
using Dims = std::vector<int64_t>;

Dims StridesOf(const Dims& d, bool channels_first) {
  if (channels_first) return {d[1] * d[2] * d[3], d[2] * d[3], d[3], 1};
  return {d[1] * d[2] * d[3], 1, d[3] * d[1], d[1]};
}

// Builds the graph of a convolution.
class GraphBuilder {
 public:
  explicit GraphBuilder(const CudnnConvolution& convolution) : c_(convolution) {}

  // The graph is the last of the descriptors; the others are what it refers to.
  absl::StatusOr<std::vector<CudnnDescriptor>> Build() {
    MF_RETURN_IF_ERROR(AddConvolution());
    if (c_.epilogue != CudnnEpilogue::kNone) {
      const bool relu = c_.epilogue == CudnnEpilogue::kBiasAndRelu;
      MF_RETURN_IF_ERROR(AddBias(relu ? kBiased : kOutput));
      if (relu) MF_RETURN_IF_ERROR(AddRelu());
    }
    MF_ASSIGN_OR_RETURN(CudnnDescriptor graph, CudnnBuilder(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
                                                   .Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations_)
                                                   .Build());
    for (CudnnDescriptor& operation : operations_) parts_.push_back(std::move(operation));
    parts_.push_back(std::move(graph));
    return std::move(parts_);
  }

 private:
  absl::StatusOr<CudnnDescriptor> Tensor(Id id) const {
    const ConvolutionGeometry& g = c_.geometry;
    const Dims dims = id == kImages ? Dims{g.batch, g.in_channels, g.h.in, g.w.in}
                      : id == kFilter
                          ? Dims{g.out_channels, g.in_channels / g.groups, g.h.size, g.w.size}
                      : id == kBias ? Dims{1, g.out_channels, 1, 1}
                                    : Dims{g.batch, g.out_channels, g.h.out, g.w.out};
    const bool is_virtual = id == kConvolved || id == kBiased;
    return CudnnBuilder(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
        .Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, static_cast<int64_t>(id))
        .Set(CUDNN_ATTR_TENSOR_DATA_TYPE, is_virtual ? CUDNN_DATA_FLOAT : c_.type)
        .Set(CUDNN_ATTR_TENSOR_DIMENSIONS, dims)
        .Set(CUDNN_ATTR_TENSOR_STRIDES, StridesOf(dims, g.nchw))
        .Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, static_cast<int64_t>(kBufferAlignment))
        .Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, is_virtual)
        .Build();
  }

  // The names of the attributes of an operation.
  struct Names {
    cudnnBackendDescriptorType_t operation;
    cudnnBackendAttributeName_t convolution, images, filter, output, alpha, beta;
  };
  Names NamesOfPart() const {
    switch (c_.part) {
      case ConvolutionPart::kForward:
        break;
      case ConvolutionPart::kBackpropInput:
        return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
      case ConvolutionPart::kBackpropFilter:
        return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
    }
    return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
  }

  absl::Status AddConvolution() {
    const Window &h = c_.geometry.h, &w = c_.geometry.w;
    MF_ASSIGN_OR_RETURN(CudnnDescriptor convolution,
                        CudnnBuilder(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
                            .Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
                            .Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
                            .Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2})
                            .Set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, Dims{h.before, w.before})
                            .Set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, Dims{h.before, w.before})
                            .Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, Dims{h.stride, w.stride})
                            .Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, Dims{h.dilation, w.dilation})
                            .Build());
    MF_ASSIGN_OR_RETURN(CudnnDescriptor images, Tensor(kImages));
    MF_ASSIGN_OR_RETURN(CudnnDescriptor filter, Tensor(kFilter));
    MF_ASSIGN_OR_RETURN(CudnnDescriptor output,
                        Tensor(c_.epilogue == CudnnEpilogue::kNone ? kOutput : kConvolved));
    const Names names = NamesOfPart();
    MF_ASSIGN_OR_RETURN(CudnnDescriptor operation, CudnnBuilder(names.operation)
                                                       .Set(names.convolution, convolution)
                                                       .Set(names.images, images)
                                                       .Set(names.filter, filter)
                                                       .Set(names.output, output)
                                                       .Set(names.alpha, 1.0f)
                                                       .Set(names.beta, 0.0f)
                                                       .Build());
    operations_.push_back(std::move(operation));
    Keep(std::move(convolution), std::move(images), std::move(filter), std::move(output));
    return absl::OkStatus();
  }

  absl::Status AddBias(Id to) {
    MF_ASSIGN_OR_RETURN(CudnnDescriptor add,
                        CudnnBuilder(CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
                            .Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_ADD)
                            .Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT)
                            .Build());
    MF_ASSIGN_OR_RETURN(CudnnDescriptor x, Tensor(kConvolved));
    MF_ASSIGN_OR_RETURN(CudnnDescriptor bias, Tensor(kBias));
    MF_ASSIGN_OR_RETURN(CudnnDescriptor y, Tensor(to));
    MF_ASSIGN_OR_RETURN(CudnnDescriptor operation,
                        CudnnBuilder(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
                            .Set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, add)
                            .Set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x)
                            .Set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, bias)
                            .Set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y)
                            .Build());
    operations_.push_back(std::move(operation));
    Keep(std::move(add), std::move(x), std::move(bias), std::move(y));
    return absl::OkStatus();
  }

  absl::Status AddRelu() {
    // NaN stays NaN, as in our own Relu; the library's default is to replace it.
    MF_ASSIGN_OR_RETURN(CudnnDescriptor relu,
                        CudnnBuilder(CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
                            .Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_RELU_FWD)
                            .Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT)
                            .Set(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_PROPAGATE_NAN)
                            .Build());
    MF_ASSIGN_OR_RETURN(CudnnDescriptor x, Tensor(kBiased));
    MF_ASSIGN_OR_RETURN(CudnnDescriptor y, Tensor(kOutput));
    MF_ASSIGN_OR_RETURN(CudnnDescriptor operation,
                        CudnnBuilder(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
                            .Set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, relu)
                            .Set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x)
                            .Set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y)
                            .Build());
    operations_.push_back(std::move(operation));
    Keep(std::move(relu), std::move(x), std::move(y));
    return absl::OkStatus();
  }

  template <typename... Descriptors>
  void Keep(Descriptors&&... descriptors) {
    (parts_.push_back(std::move(descriptors)), ...);
  }

  const CudnnConvolution& c_;
  std::vector<CudnnDescriptor> parts_, operations_;
};

absl::StatusOr<std::vector<CudnnDescriptor>> ConfigsOf(const CudnnDescriptor& graph,
                                                       const CudnnDescriptor& gpu,
                                                       cudnnBackendHeurMode_t mode) {
  constexpr int64_t kMost = 64;
  MF_ASSIGN_OR_RETURN(const CudnnDescriptor heuristic,
                      CudnnBuilder(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
                          .Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
                          .Set(CUDNN_ATTR_ENGINEHEUR_MODE, mode)
                          .Set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, gpu)
                          .Build());
  return heuristic.GetDescriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                                  kMost);
}

// Whether sums of the engine are reproducible and as precise as asked for.
absl::StatusOr<bool> IsPrecise(const CudnnDescriptor& config, const CudnnConvolution& c) {
  MF_ASSIGN_OR_RETURN(
      const std::vector<CudnnDescriptor> engines,
      config.GetDescriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1));
  if (engines.empty()) return absl::InternalError("cuDNN: a configuration without an engine");
  MF_ASSIGN_OR_RETURN(const auto notes,
                      engines[0].Get<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                                                  CUDNN_NUMERICAL_NOTE_TYPE_COUNT));
  // Tensor cores round floats to TensorFloat-32.
  const bool exact = c.type == CUDNN_DATA_FLOAT && !c.allow_tf32;
  return std::none_of(notes.begin(), notes.end(), [&](cudnnBackendNumericalNote_t note) {
    return note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC ||
           note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS ||
           note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION ||
           (exact && note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  });
}

// The engine's workspace. Unimplemented if the library has no plan for it, although it proposed it.
absl::StatusOr<size_t> WorkspaceBytes(const CudnnEngine& engine) {
  MF_ASSIGN_OR_RETURN(const CudnnDescriptor plan, engine.MakePlan());
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> bytes,
                      plan.Get<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 1));
  if (bytes.empty()) return absl::InternalError("cuDNN: a plan without a workspace size");
  return static_cast<size_t>(bytes[0]);
}

}  // namespace

absl::StatusOr<CudnnDescriptor> CudnnEngine::MakePlan() const {
  return CudnnBuilder(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
      .Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config)
      .Build();
}

absl::StatusOr<CudnnDescriptor> PropertiesOfGpu() {
  int ordinal = 0;
  MF_RETURN_IF_CUDA_ERROR(cudaGetDevice(&ordinal));
  return CudnnBuilder(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)
      .Set(CUDNN_ATTR_DEVICEPROP_DEVICE_ID, static_cast<int32_t>(ordinal))
      .Build();
}

absl::StatusOr<std::vector<std::shared_ptr<const CudnnEngine>>> ProposeEngines(
    const CudnnConvolution& convolution, const CudnnDescriptor& gpu, int max_count) {
  MF_ASSIGN_OR_RETURN(std::vector<CudnnDescriptor> parts, GraphBuilder(convolution).Build());
  const auto graph = std::make_shared<const std::vector<CudnnDescriptor>>(std::move(parts));
  std::vector<std::shared_ptr<const CudnnEngine>> proposed;
  absl::Status failure = absl::UnimplementedError("cuDNN has no engine for this convolution");
  // The library adds slow engines that support almost everything only in the second mode.
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    if (!proposed.empty()) break;
    absl::StatusOr<std::vector<CudnnDescriptor>> configs = ConfigsOf(graph->back(), gpu, mode);
    if (absl::IsUnimplemented(configs.status())) continue;
    if (!configs.ok()) return configs.status();
    for (CudnnDescriptor& config : *configs) {
      if (static_cast<int>(proposed.size()) == max_count) break;
      MF_ASSIGN_OR_RETURN(const bool precise, IsPrecise(config, convolution));
      if (!precise) continue;
      CudnnEngine engine{.graph = graph, .config = std::move(config)};
      const absl::StatusOr<size_t> bytes = WorkspaceBytes(engine);
      if (!bytes.ok() && !absl::IsUnimplemented(bytes.status())) failure = bytes.status();
      if (!bytes.ok() || *bytes > kMaxCudnnWorkspaceBytes) continue;
      engine.workspace_bytes = *bytes;
      proposed.push_back(std::make_shared<const CudnnEngine>(std::move(engine)));
    }
  }
  if (proposed.empty()) return failure;
  return proposed;
}

CudnnLane::~CudnnLane() {
  plans_.clear();
  if (handle_ != nullptr) cudnnDestroy(handle_);
}

absl::StatusOr<cudnnBackendDescriptor_t> CudnnLane::PlanOf(
    const std::shared_ptr<const CudnnEngine>& engine) {
  const auto found = plans_.find(engine.get());
  if (found != plans_.end() && found->second.of.lock() == engine) return found->second.plan.get();
  std::erase_if(plans_, [](const auto& each) { return each.second.of.expired(); });
  // Takes a lock, because the lanes of other GPUs make plans of the same engine at the same time.
  static std::mutex* const mu = new std::mutex();
  std::lock_guard<std::mutex> lock(*mu);
  MF_ASSIGN_OR_RETURN(CudnnDescriptor plan, engine->MakePlan());
  return plans_.insert_or_assign(engine.get(), Plan{engine, std::move(plan)})
      .first->second.plan.get();
}

absl::Status CudnnLane::Execute(cudaStream_t stream,
                                const std::shared_ptr<const CudnnEngine>& engine,
                                const CudnnOperands& operands) {
  if (handle_ == nullptr) {
    MF_RETURN_IF_CUDNN_ERROR(cudnnCreate(&handle_));
    MF_RETURN_IF_CUDNN_ERROR(cudnnSetStream(handle_, stream));
  }
  MF_ASSIGN_OR_RETURN(const cudnnBackendDescriptor_t plan, PlanOf(engine));
  std::vector<int64_t> ids = {kImages, kFilter, kOutput};
  std::vector<void*> addresses = {operands.images, operands.filter, operands.output};
  if (operands.bias != nullptr) {
    ids.push_back(kBias);
    addresses.push_back(operands.bias);
  }
  MF_ASSIGN_OR_RETURN(const CudnnDescriptor pack,
                      CudnnBuilder(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
                          .Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids)
                          .Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, addresses)
                          .Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, operands.workspace)
                          .Build());
  MF_RETURN_IF_CUDNN_ERROR(cudnnBackendExecute(handle_, plan, pack.get()));
  return absl::OkStatus();
}

}  // namespace mirrorflow
