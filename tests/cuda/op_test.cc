// SPDX-License-Identifier: Apache-2.0
//
// Runs every GPU kernel on the cases of its op, which contain TensorFlow's results. The CPU kernels
// are tested on the same cases.
#include <algorithm>
#include <map>

#include "gtest/gtest.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/libraries/cudnn_convolution.h"
#include "ops/registry.h"
#include "tests/support/cpu_and_gpu_kernels.h"
#include "tests/support/run_on_device.h"

namespace mirrorflow {
namespace {

// Returns by how many rounding units results can differ because terms cancel: formulas such as
// 1 - y² are contracted to FMAs, or differ from TensorFlow's formulas.
double Cancellation(const std::string& op) {
  return op == "Digamma" ? 16 : 4;  // terms of Digamma cancel near its root
}

// Returns the ops that have cases. Ops that only passes create (`_FusedMatMul`,
// `ShardSlice`) have none; the programs of session_test.cc and strategy_test.cc run them.
// Random ops have a separate test.
std::vector<std::string> OpsWithCases() {
  std::vector<std::string> ops;
  for (const std::string& op : CpuAndGpuKernels().Ops(kGpu)) {
    if (AllOps().Find(op) != nullptr) ops.push_back(op);
  }
  return ops;
}

class EveryCudaKernel : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryCudaKernel, MatchesTensorFlow) {
  const auto cases = OpCasesByOp().find(GetParam());
  ASSERT_NE(cases, OpCasesByOp().end()) << "no case";
  auto device = CreateCudaDevice(0, 0);
  ASSERT_TRUE(device.ok()) << device.status();
  const CheckReport report = CheckCasesOnDevice(cases->second, AllOps(), CpuAndGpuKernels(),
                                                **device, Cancellation(GetParam()));
  EXPECT_TRUE(report.failures.empty()) << report.ToString();
  EXPECT_GT(report.checked, 0);
  EXPECT_EQ(NumCudnnFailures(), 0);  // our own kernels would hide failures
}

// Tensor cores compute the float cases whose rows are multiples of 8 elements.
TEST(AttentionTest, FloatsMatchWithinTensorFloat32Tolerance) {
  std::vector<OpCase> cases;
  for (const char* op : {"ScaledDotProductAttention", "ScaledDotProductAttentionGrad"}) {
    for (const OpCase& op_case : OpCasesByOp().at(op)) {
      if (op_case.operands[0].value.dtype() == DT_FLOAT && !op_case.fails) cases.push_back(op_case);
    }
  }
  auto device = CreateCudaDevice(0, 0);
  ASSERT_TRUE(device.ok()) << device.status();
  const CheckReport report = CheckCasesOnDevice(cases, AllOps(), CpuAndGpuKernels(), **device,
                                                /*units=*/4, {.allow_tf32 = true});
  EXPECT_TRUE(report.failures.empty()) << report.ToString();
  EXPECT_EQ(report.checked, static_cast<int64_t>(cases.size()));
}

INSTANTIATE_TEST_SUITE_P(Ops, EveryCudaKernel, ::testing::ValuesIn(OpsWithCases()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace mirrorflow
