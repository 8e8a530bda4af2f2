// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/cudnn_graph.h"

#include <utility>
#include <vector>

#include "framework/core/buffer.h"
#include "framework/core/status.h"

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

}  // namespace

CudnnBindings BindingsOf(const CudnnOperands& operands) {
  CudnnBindings bindings = {.ids = {kImages, kFilter, kOutput},
                            .addresses = {operands.images, operands.filter, operands.output},
                            .workspace = operands.workspace};
  if (operands.bias != nullptr) {
    bindings.ids.push_back(kBias);
    bindings.addresses.push_back(operands.bias);
  }
  return bindings;
}

absl::StatusOr<CudnnProposals> ProposeEngines(const CudnnConvolution& convolution,
                                              const CudnnDescriptor& gpu, int max_count) {
  MF_ASSIGN_OR_RETURN(std::vector<CudnnDescriptor> graph, GraphBuilder(convolution).Build());
  // Tensor cores round floats to TensorFloat-32.
  const bool allow_tensor_cores = convolution.type != CUDNN_DATA_FLOAT || convolution.allow_tf32;
  return ProposeEngines(std::move(graph), gpu, allow_tensor_cores, max_count);
}

}  // namespace mirrorflow
