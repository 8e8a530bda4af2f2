// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gpu.h"

#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

TEST(GpuTest, NumGpusSucceedsWithoutDriverAndIsZeroWithoutCuda) {
  const absl::StatusOr<int> num_gpus = NumGpus();
  ASSERT_TRUE(num_gpus.ok()) << num_gpus.status();
  EXPECT_GE(*num_gpus, 0);
  EXPECT_TRUE(BuiltWithCuda() || *num_gpus == 0) << *num_gpus;
}

TEST(GpuTest, BuiltWithCudaMatchesBuildConfiguration) {
  EXPECT_EQ(BuiltWithCuda(), BUILT_FOR_CUDA);
}

}  // namespace
}  // namespace mirrorflow
