// SPDX-License-Identifier: Apache-2.0
//
// The attributes that can be set on the cuDNN fake's descriptors.
#ifndef MIRRORFLOW_TESTS_FAKES_CUDA_FAKE_CUDNN_ATTRIBUTES_H_
#define MIRRORFLOW_TESTS_FAKES_CUDA_FAKE_CUDNN_ATTRIBUTES_H_

#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mirrorflow {

// Short names for the descriptor types.
namespace fake_cudnn {
inline constexpr auto kTensor = CUDNN_BACKEND_TENSOR_DESCRIPTOR;
inline constexpr auto kConvolution = CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR;
inline constexpr auto kPointwise = CUDNN_BACKEND_POINTWISE_DESCRIPTOR;
inline constexpr auto kForward = CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
inline constexpr auto kBackwardData = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
inline constexpr auto kBackwardFilter =
    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
inline constexpr auto kApply = CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR;
inline constexpr auto kMatMul = CUDNN_BACKEND_MATMUL_DESCRIPTOR;
inline constexpr auto kMultiply = CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
inline constexpr auto kReduction = CUDNN_BACKEND_REDUCTION_DESCRIPTOR;
inline constexpr auto kReduce = CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR;
inline constexpr auto kGraph = CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR;
inline constexpr auto kGpu = CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR;
inline constexpr auto kHeuristic = CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR;
inline constexpr auto kEngine = CUDNN_BACKEND_ENGINE_DESCRIPTOR;
inline constexpr auto kChoice = CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR;
inline constexpr auto kConfig = CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
inline constexpr auto kPlan = CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR;
inline constexpr auto kPack = CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR;
}  // namespace fake_cudnn

// An attribute of a descriptor type.
struct FakeCudnnAttribute {
  cudnnBackendDescriptorType_t of;
  cudnnBackendAttributeName_t name;
  cudnnBackendAttributeType_t type;
  size_t size;        // bytes per element
  int64_t max_count;  // maximum number of elements
  bool required = true;
  std::vector<cudnnBackendDescriptorType_t> children = {};  // the allowed descriptor types
};

// Returns all attributes.
const std::vector<FakeCudnnAttribute>& FakeCudnnAttributes();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_FAKES_CUDA_FAKE_CUDNN_ATTRIBUTES_H_
