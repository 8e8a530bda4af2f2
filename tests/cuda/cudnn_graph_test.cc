// SPDX-License-Identifier: Apache-2.0
//
// Tests the graphs that we pass to cuDNN, and that it rejects misuse. Runs on the fake and also
// with the real library, because graphs require only a GPU's properties.
#include "kernels/cuda/libraries/cudnn_graph.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cuda/capabilities.h"
#include "tests/cuda/described_gpu.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

constexpr absl::StatusCode kInternal = absl::StatusCode::kInternal;

// Returns a convolution with a 3x3 window.
CudnnConvolution Convolution(ConvolutionPart part, cudnnDataType_t type) {
  const Window window = {.in = 14, .out = 14, .size = 3, .before = 1};
  return {
      .part = part,
      .type = type,
      .geometry = {.batch = 8, .in_channels = 16, .out_channels = 32, .h = window, .w = window}};
}

void ExpectUsable(const CudnnConvolution& convolution, const CudnnDescriptor& gpu) {
  for (const int max_count : {1, 8}) {
    const auto engines = ProposeEngines(convolution, gpu, max_count);
    ASSERT_TRUE(engines.ok()) << engines.status();
    EXPECT_LE(static_cast<int>(engines->size()), max_count);
    for (const auto& engine : *engines) EXPECT_EQ(engine->MakePlan().status(), absl::OkStatus());
    ExpectUsable(*engines, convolution.type != CUDNN_DATA_FLOAT || convolution.allow_tf32);
  }
}

TEST(CudnnGraphTest, EveryConvolutionHasUsableEngines) {
  for (const int capability : kCapabilities) {
    const auto gpu = DescribedGpu(capability);
    ASSERT_TRUE(gpu.ok()) << gpu.status();
    for (const ConvolutionPart part : {ConvolutionPart::kForward, ConvolutionPart::kBackpropInput,
                                       ConvolutionPart::kBackpropFilter}) {
      for (const cudnnDataType_t type : {CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16}) {
        for (const bool nchw : {false, true}) {
          SCOPED_TRACE(
              absl::StrCat("sm_", capability, " part ", part, " type ", type, " nchw ", nchw));
          CudnnConvolution convolution = Convolution(part, type);
          convolution.geometry.nchw = nchw;
          ExpectUsable(convolution, *gpu);
          if (part != ConvolutionPart::kForward) continue;
          convolution.epilogue = CudnnEpilogue::kBias;
          ExpectUsable(convolution, *gpu);
          convolution.epilogue = CudnnEpilogue::kBiasAndRelu;
          ExpectUsable(convolution, *gpu);
        }
      }
    }
  }
}

// The first engine compiles its kernels at run time, which cuDNN does only once per configuration.
TEST(CudnnGraphTest, EnginesCanMakeSeveralPlans) {
  const auto gpu = DescribedGpu();
  ASSERT_TRUE(gpu.ok()) << gpu.status();
  CudnnConvolution convolution = Convolution(ConvolutionPart::kBackpropInput, CUDNN_DATA_FLOAT);
  convolution.geometry.in_channels = convolution.geometry.out_channels = 1;
  const auto engines = ProposeEngines(convolution, *gpu, 1);
  ASSERT_TRUE(engines.ok()) << engines.status();
  for (int i = 0; i < 3; ++i) EXPECT_EQ((*engines)[0]->MakePlan().status(), absl::OkStatus());
}

// cuDNN compiles each of these engines, so the test uses only one convolution.
TEST(CudnnGraphTest, Tf32EngineComesFirstIfAllowed) {
  const auto gpu = DescribedGpu();
  ASSERT_TRUE(gpu.ok()) << gpu.status();
  CudnnConvolution convolution = Convolution(ConvolutionPart::kForward, CUDNN_DATA_FLOAT);
  convolution.allow_tf32 = true;
  const auto engines = ProposeEngines(convolution, *gpu, 1);
  ASSERT_TRUE(engines.ok()) << engines.status();
  EXPECT_TRUE(NotesOf(*(*engines)[0]).contains(CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
}

TEST(CudnnGraphTest, MismatchedShapesAreRejected) {
  const auto gpu = DescribedGpu();
  ASSERT_TRUE(gpu.ok()) << gpu.status();
  CudnnConvolution convolution = Convolution(ConvolutionPart::kForward, CUDNN_DATA_FLOAT);
  convolution.geometry.h.out = 13;
  EXPECT_THAT(ProposeEngines(convolution, *gpu, 1).status(),
              IsError(kInternal, "cudnnBackendFinalize("));
}

CudnnBuilder TensorBuilder() {
  return std::move(CudnnBuilder(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
                       .Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT)
                       .Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, int64_t{1})
                       .Set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::vector<int64_t>{1, 2, 3, 4}));
}
const std::vector<int64_t> kStrides = {24, 12, 4, 1};

CudnnBuilder ConvolutionBuilder() {
  return std::move(CudnnBuilder(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
                       .Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
                       .Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
                       .Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2})
                       .Set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, std::vector<int64_t>{0, 0})
                       .Set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, std::vector<int64_t>{0, 0})
                       .Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, std::vector<int64_t>{1, 1}));
}

TEST(CudnnGraphTest, MisusedAttributesAreRejected) {
  constexpr int64_t kAlignment = 64;
  const auto complete = [&] {
    return std::move(TensorBuilder()
                         .Set(CUDNN_ATTR_TENSOR_STRIDES, kStrides)
                         .Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment));
  };
  EXPECT_EQ(complete().Build().status(), absl::OkStatus());
  EXPECT_THAT(TensorBuilder().Set(CUDNN_ATTR_TENSOR_STRIDES, kStrides).Build().status(),
              IsError(kInternal, "cudnnBackendFinalize("));
  EXPECT_THAT(TensorBuilder().Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment).Build().status(),
              IsError(kInternal, "cudnnBackendFinalize("));
  // An alignment smaller than an element.
  EXPECT_THAT(complete().Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t{2}).Build().status(),
              IsError(kInternal, "cudnnBackendFinalize("));
  // Fewer strides than dimensions.
  EXPECT_THAT(
      complete().Set(CUDNN_ATTR_TENSOR_STRIDES, std::vector<int64_t>{12, 4, 1}).Build().status(),
      IsError(kInternal, "cudnnBackendFinalize("));
  // Wrong types, element counts and attributes.
  EXPECT_THAT(complete().Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, int32_t{1}).Build().status(),
              IsError(kInternal, "SetAttribute", absl::StrCat(CUDNN_ATTR_TENSOR_UNIQUE_ID)));
  EXPECT_THAT(complete().Set(CUDNN_ATTR_TENSOR_DIMENSIONS, 1.0f).Build().status(),
              IsError(kInternal, "SetAttribute", absl::StrCat(CUDNN_ATTR_TENSOR_DIMENSIONS)));
  EXPECT_THAT(
      complete().Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, std::vector<int64_t>{1, 2}).Build().status(),
      IsError(kInternal, "SetAttribute", absl::StrCat(CUDNN_ATTR_TENSOR_UNIQUE_ID)));
  EXPECT_THAT(complete().Set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::vector<int64_t>()).Build().status(),
              IsError(kInternal, "SetAttribute", absl::StrCat(CUDNN_ATTR_TENSOR_DIMENSIONS)));
  EXPECT_THAT(complete().Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT).Build().status(),
              IsError(kInternal, "SetAttribute", absl::StrCat(CUDNN_ATTR_CONVOLUTION_COMP_TYPE)));
  EXPECT_THAT(ConvolutionBuilder().Build().status(),
              IsError(kInternal, "cudnnBackendFinalize("));  // without strides
  EXPECT_THAT(
      ConvolutionBuilder()
          .Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::vector<int32_t>{1, 1})
          .Build()
          .status(),
      IsError(kInternal, "SetAttribute", absl::StrCat(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES)));
  EXPECT_EQ(ConvolutionBuilder()
                .Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::vector<int64_t>{1, 1})
                .Build()
                .status(),
            absl::OkStatus());
}

TEST(CudnnGraphTest, DescriptorsAreFinalizedInOrder) {
  const auto tensor = TensorBuilder()
                          .Set(CUDNN_ATTR_TENSOR_STRIDES, kStrides)
                          .Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t{64})
                          .Build();
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  const int64_t id = 2;
  EXPECT_NE(cudnnBackendSetAttribute(tensor->get(), CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64,
                                     1, &id),
            CUDNN_STATUS_SUCCESS);
  EXPECT_NE(cudnnBackendFinalize(tensor->get()), CUDNN_STATUS_SUCCESS);
  // An operation without a filter, and one whose convolution is not finalized.
  const auto convolution =
      ConvolutionBuilder()
          .Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::vector<int64_t>{1, 1})
          .Build();
  ASSERT_TRUE(convolution.ok()) << convolution.status();
  const auto operation = [&] {
    return std::move(CudnnBuilder(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
                         .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1.0f)
                         .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0.0f)
                         .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, *tensor)
                         .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, *tensor));
  };
  EXPECT_THAT(operation()
                  .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, *convolution)
                  .Build()
                  .status(),
              IsError(kInternal, "cudnnBackendFinalize("));
  const auto empty = CudnnDescriptor::Create(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_THAT(operation()
                  .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, *tensor)
                  .Set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, *empty)
                  .Build()
                  .status(),
              IsError(kInternal, "cudnnBackend"));  // the fake already refuses the attribute
  // Graphs, heuristics and plans without the descriptors that they require.
  EXPECT_THAT(CudnnBuilder(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR).Build().status(),
              IsError(kInternal, "cudnnBackendFinalize("));
  EXPECT_THAT(CudnnBuilder(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
                  .Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_HEUR_MODE_A)
                  .Build()
                  .status(),
              IsError(kInternal, "cudnnBackendFinalize("));
  EXPECT_THAT(CudnnBuilder(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR).Build().status(),
              IsError(kInternal, "cudnnBackendFinalize("));
  // Only finalized descriptors return values.
  EXPECT_THAT(empty->Get<int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 1).status(),
              IsError(kInternal, "cudnnBackendGetAttribute("));
}

TEST(CudnnGraphTest, PackWithoutAddressForEveryIdIsRejected) {
  const auto build = [](std::vector<int64_t> ids, std::vector<void*> addresses) {
    return CudnnBuilder(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
        .Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids)
        .Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, addresses)
        .Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, static_cast<void*>(nullptr))
        .Build()
        .status();
  };
  alignas(64) char memory[64];
  void* const address = memory;
  EXPECT_EQ(build({1, 2}, {address, address}), absl::OkStatus());
  EXPECT_THAT(build({1, 2}, {address}), IsError(kInternal, "cudnnBackendFinalize("));
}

}  // namespace
}  // namespace mirrorflow
