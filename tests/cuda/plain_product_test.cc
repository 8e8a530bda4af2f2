// SPDX-License-Identifier: Apache-2.0
//
// Tests MakePlainProduct as the kernel for matrix products of all dtypes, against TensorFlow's
// results.
#include "kernels/cuda/plain_product.h"

#include "gtest/gtest.h"
#include "kernels/cpu/all_kernels.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/libraries/code_text.h"
#include "kernels/cuda/libraries/program.h"
#include "ops/registry.h"
#include "tests/support/run_on_device.h"

namespace mirrorflow {
namespace {

absl::StatusOr<KernelPlan> CreateMatMul(const KernelContext& c) {
  return MakePlainProduct(c, c.attr<bool>("transpose_a"), c.attr<bool>("transpose_b"));
}
absl::StatusOr<KernelPlan> CreateBatchMatMul(const KernelContext& c) {
  return MakePlainProduct(c, c.attr<bool>("adj_x"), c.attr<bool>("adj_y"));
}

TEST(PlainProductTest, MatchesTensorFlow) {
  KernelRegistry kernels;
  RegisterCpuKernels(kernels);
  kernels.Register("MatMul", kGpu, CreateMatMul);
  kernels.Register("BatchMatMulV2", kGpu, CreateBatchMatMul);
  kernels.SetLibrary(
      kGpu, []() -> std::unique_ptr<KernelLibrary> { return std::make_unique<CudaProgram>(); });
  std::vector<OpCase> products;
  for (const char* op : {"MatMul", "BatchMatMulV2"}) {
    const std::vector<OpCase>& cases = OpCasesByOp().at(op);
    products.insert(products.end(), cases.begin(), cases.end());
  }
  auto device = CreateCudaDevice(0, 0);
  ASSERT_TRUE(device.ok()) << device.status();
  const CheckReport report = CheckCasesOnDevice(products, AllOps(), kernels, **device, /*units=*/0);
  EXPECT_TRUE(report.failures.empty()) << report.ToString();
  EXPECT_GT(report.checked, 50);
}

}  // namespace
}  // namespace mirrorflow
