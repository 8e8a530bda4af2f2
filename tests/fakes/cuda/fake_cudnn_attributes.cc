// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/cuda/fake_cudnn_attributes.h"

#include <utility>

namespace mirrorflow {
namespace {

using Attribute = FakeCudnnAttribute;
using namespace fake_cudnn;

constexpr int64_t kAny = CUDNN_DIM_MAX, kMaxOperations = 50;

template <typename T>
Attribute Plain(cudnnBackendDescriptorType_t of, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t max_count = 1, bool required = true) {
  return {of, name, type, sizeof(T), max_count, required};
}

Attribute Child(cudnnBackendDescriptorType_t of, cudnnBackendAttributeName_t name,
                std::vector<cudnnBackendDescriptorType_t> children, int64_t max_count = 1,
                bool required = true) {
  return {of,
          name,
          CUDNN_TYPE_BACKEND_DESCRIPTOR,
          sizeof(cudnnBackendDescriptor_t),
          max_count,
          required,
          std::move(children)};
}

}  // namespace

const std::vector<Attribute>& FakeCudnnAttributes() {
  static const auto* const all = new std::vector<Attribute>{
      Plain<int64_t>(kTensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64),
      Plain<cudnnDataType_t>(kTensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE),
      Plain<int64_t>(kTensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, kAny),
      Plain<int64_t>(kTensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, kAny),
      Plain<int64_t>(kTensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64),
      Plain<bool>(kTensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, false),
      Plain<bool>(kTensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, false),
      Plain<cudnnDataType_t>(kConvolution, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE),
      Plain<cudnnConvolutionMode_t>(kConvolution, CUDNN_ATTR_CONVOLUTION_CONV_MODE,
                                    CUDNN_TYPE_CONVOLUTION_MODE),
      Plain<int64_t>(kConvolution, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64),
      Plain<int64_t>(kConvolution, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, kAny),
      Plain<int64_t>(kConvolution, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, kAny),
      Plain<int64_t>(kConvolution, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, kAny),
      Plain<int64_t>(kConvolution, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, kAny),
      Plain<cudnnPointwiseMode_t>(kPointwise, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE),
      Plain<cudnnDataType_t>(kPointwise, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE),
      Plain<cudnnNanPropagation_t>(kPointwise, CUDNN_ATTR_POINTWISE_NAN_PROPAGATION,
                                   CUDNN_TYPE_NAN_PROPOGATION, 1, false),
      Plain<int64_t>(kPointwise, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, false),
      Plain<cudnnDataType_t>(kMatMul, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE),
      Plain<cudnnReduceTensorOp_t>(kReduction, CUDNN_ATTR_REDUCTION_OPERATOR,
                                   CUDNN_TYPE_REDUCTION_OPERATOR_TYPE),
      Plain<cudnnDataType_t>(kReduction, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE),
      Child(kForward, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, {kConvolution}),
      Child(kForward, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, {kTensor}),
      Child(kForward, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, {kTensor}),
      Child(kForward, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, {kTensor}),
      Plain<float>(kForward, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT),
      Plain<float>(kForward, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT),
      Child(kBackwardData, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, {kConvolution}),
      Child(kBackwardData, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, {kTensor}),
      Child(kBackwardData, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, {kTensor}),
      Child(kBackwardData, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, {kTensor}),
      Plain<float>(kBackwardData, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                   CUDNN_TYPE_FLOAT),
      Plain<float>(kBackwardData, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, CUDNN_TYPE_FLOAT),
      Child(kBackwardFilter, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, {kConvolution}),
      Child(kBackwardFilter, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, {kTensor}),
      Child(kBackwardFilter, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, {kTensor}),
      Child(kBackwardFilter, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, {kTensor}),
      Plain<float>(kBackwardFilter, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                   CUDNN_TYPE_FLOAT),
      Plain<float>(kBackwardFilter, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
                   CUDNN_TYPE_FLOAT),
      Child(kApply, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, {kPointwise}),
      Child(kApply, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, {kTensor}),
      Child(kApply, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, {kTensor}, 1, false),
      Child(kApply, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, {kTensor}, 1, false),
      Child(kApply, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, {kTensor}),
      Child(kMultiply, CUDNN_ATTR_OPERATION_MATMUL_DESC, {kMatMul}),
      Child(kMultiply, CUDNN_ATTR_OPERATION_MATMUL_ADESC, {kTensor}),
      Child(kMultiply, CUDNN_ATTR_OPERATION_MATMUL_BDESC, {kTensor}),
      Child(kMultiply, CUDNN_ATTR_OPERATION_MATMUL_CDESC, {kTensor}),
      Child(kReduce, CUDNN_ATTR_OPERATION_REDUCTION_DESC, {kReduction}),
      Child(kReduce, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, {kTensor}),
      Child(kReduce, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, {kTensor}),
      Child(kGraph, CUDNN_ATTR_OPERATIONGRAPH_OPS,
            {kForward, kBackwardData, kBackwardFilter, kApply, kMultiply, kReduce}, kMaxOperations),
      Plain<int32_t>(kGpu, CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, 1, false),
      Plain<char>(kGpu, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 1 << 16, false),
      Child(kHeuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, {kGraph}),
      Plain<cudnnBackendHeurMode_t>(kHeuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE),
      Child(kHeuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, {kGpu}),
      Child(kConfig, CUDNN_ATTR_ENGINECFG_ENGINE, {kEngine}),
      Child(kConfig, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, {kChoice}, CUDNN_KNOB_TYPE_COUNTS, false),
      Child(kPlan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, {kConfig}),
      Plain<int64_t>(kPack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, kAny),
      Plain<void*>(kPack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, kAny),
      Plain<void*>(kPack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR),
  };
  return *all;
}

}  // namespace mirrorflow
