// SPDX-License-Identifier: Apache-2.0
//
// MakePlainProduct as the kernel of products of all dtypes, on TensorFlow's numbers.
#include "kernels/cuda/plain_product.h"

#include "gtest/gtest.h"
#include "kernels/cpu/all_kernels.h"
#include "kernels/cuda/code_text.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/program.h"
#include "ops/registry.h"
#include "tests/support/run_on_device.h"

namespace mirrorflow {
namespace {

KernelPlan MakeTransposed(const KernelContext& c, bool transpose_a, bool transpose_b) {
  const Shape &a = c.input_shape(0), &b = c.input_shape(1), &out = c.output_shape(0);
  const int rank = out.rank();
  const int64_t m = out.dim(rank - 2), n = out.dim(rank - 1);
  const int64_t k = a.dim(a.rank() - (transpose_a ? 2 : 1));
  PlainProduct product = {.m = m,
                          .n = n,
                          .k = k,
                          .a_row_step = transpose_a ? 1 : k,
                          .a_column_step = transpose_a ? m : 1,
                          .b_row_step = transpose_b ? 1 : n,
                          .b_column_step = transpose_b ? k : 1};
  const auto step = [rank](const Shape& operand, int d) -> int64_t {
    const int i = d - (rank - operand.rank());
    return i < 0 || operand.dim(i) == 1 ? 0 : Strides(operand)[i];
  };
  for (int d = 0; d < rank - 2; ++d) {
    product.batch.push_back({.size = out.dim(d), .a_step = step(a, d), .b_step = step(b, d)});
  }
  return MakePlainProduct(c, product);
}

absl::StatusOr<KernelPlan> CreateMatMul(const KernelContext& c) {
  return MakeTransposed(c, c.attr<bool>("transpose_a"), c.attr<bool>("transpose_b"));
}
absl::StatusOr<KernelPlan> CreateBatchMatMul(const KernelContext& c) {
  return MakeTransposed(c, c.attr<bool>("adj_x"), c.attr<bool>("adj_y"));
}

TEST(PlainProductTest, ComputesTheValuesOfTensorFlow) {
  KernelRegistry kernels;
  RegisterCpuKernels(kernels);
  kernels.Register("MatMul", kGpu, CreateMatMul);
  kernels.Register("BatchMatMulV2", kGpu, CreateBatchMatMul);
  kernels.SetLibrary(
      kGpu, []() -> std::unique_ptr<KernelLibrary> { return std::make_unique<CudaProgram>(); });
  std::vector<OpCase> products;
  for (const char* folder : {"tests/references/cases", "tests/ops/cases"}) {
    const absl::StatusOr<std::vector<OpCase>> cases = LoadOpCases(folder);
    ASSERT_TRUE(cases.ok()) << cases.status();
    for (const OpCase& op_case : *cases) {
      if (kernels.Has(op_case.op, kGpu)) products.push_back(op_case);
    }
  }
  auto device = CreateCudaDevice(0, 0);
  ASSERT_TRUE(device.ok()) << device.status();
  const CheckReport report =
      CheckCasesOnDevice(products, AllOps(), kernels, **device, /*absolute=*/0);
  EXPECT_TRUE(report.failures.empty()) << report.ToString();
  EXPECT_GT(report.checked, 50);
}

}  // namespace
}  // namespace mirrorflow
