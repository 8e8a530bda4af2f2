// SPDX-License-Identifier: Apache-2.0
//
// Tests the attention graphs that we pass to cuDNN, on the fake and with the real library.
#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/cuda/libraries/cudnn_attention.h"
#include "tests/cuda/capabilities.h"
#include "tests/cuda/described_gpu.h"

namespace mirrorflow {
namespace {

TEST(CudnnAttentionGraphTest, EveryArchitectureHasUsableEngines) {
  for (const int capability : kCapabilities) {
    const auto gpu = DescribedGpu(capability);
    ASSERT_TRUE(gpu.ok()) << gpu.status();
    for (const cudnnDataType_t type : {CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16}) {
      for (const bool causal : {false, true}) {
        const std::string what =
            absl::StrCat("sm_", capability, type == CUDNN_DATA_HALF ? " half" : " bfloat16",
                         causal ? " causal, heads inside" : "");
        SCOPED_TRACE(what);
        const auto engines = ProposeEngines(CudnnAttention{.type = type,
                                                           .batch = 2,
                                                           .heads = 3,
                                                           .queries = 100,
                                                           .keys = 77,
                                                           .depth = 128,
                                                           .value_depth = 64,
                                                           .causal = causal,
                                                           .heads_inside = causal},
                                            *gpu, 1);
        ASSERT_TRUE(engines.ok()) << engines.status();
        ExpectUsable(*engines, /*allow_tensor_cores=*/true);
        EXPECT_EQ(engines->front()->MakePlan().status(), absl::OkStatus());
        std::cout << what << ": workspace of " << engines->front()->workspace_bytes << " bytes\n";
      }
    }
  }
}

}  // namespace
}  // namespace mirrorflow
