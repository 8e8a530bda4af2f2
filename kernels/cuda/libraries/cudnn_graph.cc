// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/cudnn_graph.h"

#include <utility>
#include <vector>

#include "framework/core/status.h"
#include "kernels/cuda/libraries/cudnn_backend.h"

namespace mirrorflow {
namespace {

// The ids of the tensors in a graph. Virtual tensors exist only within an engine.
enum Id : int64_t { kImages = 1, kFilter, kOutput, kBias, kConvolved, kBiased };

// Builds a convolution graph. Dimensions are in the library's order: batch or output channels,
// channels, height, width.
class GraphBuilder : public CudnnGraphBuilder {
 public:
  explicit GraphBuilder(const CudnnConvolution& convolution) : c_(convolution) {}

  absl::StatusOr<std::vector<CudnnDescriptor>> Build() {
    const bool bias = c_.epilogue != CudnnEpilogue::kNone;
    const bool relu = c_.epilogue == CudnnEpilogue::kBiasAndRelu;
    const Index convolved = Operand(bias ? kConvolved : kOutput);
    AddConvolution(convolved);
    if (!bias) return Finish();
    const Index biased = Operand(relu ? kBiased : kOutput);
    Pointwise(CUDNN_POINTWISE_ADD, {.x = convolved, .b = Operand(kBias), .y = biased});
    if (!relu) return Finish();
    // NaN stays NaN, as in the hand-written Relu. By default, the library replaces it.
    Pointwise(CudnnBuilder(CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
                  .Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_RELU_FWD)
                  .Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT)
                  .Set(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_PROPAGATE_NAN),
              {.x = biased, .y = Operand(kOutput)});
    return Finish();
  }

 private:
  Index Operand(Id id) {
    const ConvolutionGeometry& g = c_.geometry;
    const Dims d = id == kImages ? Dims{g.batch, g.in_channels, g.h.in, g.w.in}
                   : id == kFilter
                       ? Dims{g.out_channels, g.in_channels / g.groups, g.h.size, g.w.size}
                   : id == kBias ? Dims{1, g.out_channels, 1, 1}
                                 : Dims{g.batch, g.out_channels, g.h.out, g.w.out};
    const Dims strides = g.nchw ? Dims{d[1] * d[2] * d[3], d[2] * d[3], d[3], 1}
                                : Dims{d[1] * d[2] * d[3], 1, d[3] * d[1], d[1]};
    const bool is_virtual = id == kConvolved || id == kBiased;
    return Tensor(id, is_virtual ? CUDNN_DATA_FLOAT : c_.type, d, strides,
                  is_virtual ? Kind::kVirtual : Kind::kStored);
  }

  // The attribute names of an operation.
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

  void AddConvolution(Index output) {
    const Window &h = c_.geometry.h, &w = c_.geometry.w;
    const Index convolution =
        AddDescriptor(CudnnBuilder(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
                          .Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
                          .Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
                          .Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2})
                          .Set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, Dims{h.before, w.before})
                          .Set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, Dims{h.before, w.before})
                          .Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, Dims{h.stride, w.stride})
                          .Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, Dims{h.dilation, w.dilation}));
    const Index images = Operand(kImages), filter = Operand(kFilter);
    if (!ok()) return;
    const Names names = NamesOfPart();
    AddOperation(CudnnBuilder(names.operation)
                     .Set(names.convolution, at(convolution))
                     .Set(names.images, at(images))
                     .Set(names.filter, at(filter))
                     .Set(names.output, at(output))
                     .Set(names.alpha, 1.0f)
                     .Set(names.beta, 0.0f));
  }

  const CudnnConvolution& c_;
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
