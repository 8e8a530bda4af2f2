// SPDX-License-Identifier: Apache-2.0
//
// Tests the gradient of LayerNorm. The shapes cover every way of dividing rows and columns among
// blocks and threads.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/libraries/program.h"
#include "ops/registry.h"
#include "tests/support/cpu_and_gpu_kernels.h"
#include "tests/support/run_on_device.h"

namespace mirrorflow {
namespace {

struct Matrix {
  int64_t rows, columns;
};

OpCase GradientCase(const char* dtype, const Matrix& m) {
  const std::string matrix = absl::StrCat("random ", dtype, "<", m.rows, ",", m.columns, ">\n");
  const bool is_double = absl::string_view(dtype) == "double";
  const std::string vector = absl::StrCat("random ", is_double ? "double<" : "float<");
  return ParseOpCases(absl::StrCat("case LayerNormGrad {T=", dtype, ", U=",
                                   is_double ? "double" : "float", "}\n", matrix, matrix, vector,
                                   m.columns, ">\n", vector, m.rows, ">\n", vector, m.rows, ">"),
                      absl::StrCat(dtype, "<", m.rows, ",", m.columns, ">"))
      ->at(0);
}

void ExpectMatchesCpu(const char* dtype, const std::vector<Matrix>& shapes) {
  std::vector<OpCase> cases;
  for (const Matrix& m : shapes) cases.push_back(GradientCase(dtype, m));
  const auto device = *CreateCudaDevice(0, 0);
  const CheckReport report =
      CheckCasesOnDevice(cases, AllOps(), CpuAndGpuKernels(), *device, /*units=*/4);
  EXPECT_TRUE(report.failures.empty()) << report.ToString();
  EXPECT_EQ(report.checked, shapes.size());
}

TEST(LayerNormGradTest, EmptyMatricesMatchCpu) {
  ExpectMatchesCpu("float", {{0, 5}, {0, 5000}, {5, 0}, {0, 0}});
}

TEST(LayerNormGradTest, BlocksOfManyRowsMatchCpu) {
  ExpectMatchesCpu("float", {{1, 1}, {257, 1}, {3000, 3}, {70, 8}, {70, 9}});
  ExpectMatchesCpu("float", {{33, 64}, {300, 33}, {19, 1000}});
  ExpectMatchesCpu("double", {{1, 1}, {300, 7}, {19, 1000}});
}

TEST(LayerNormGradTest, BlocksOfOneRowMatchCpu) {
  ExpectMatchesCpu("float", {{9, 2048}, {17, 1030}, {9, 4097}});
  ExpectMatchesCpu("double", {{9, 6144}});
}

// The elements of these long rows do not fit in registers.
TEST(LayerNormGradTest, RowsThatExceedRegistersMatchCpu) {
  ExpectMatchesCpu("float", {{2, 12288}, {20, 12289}, {3, 20001}});
  ExpectMatchesCpu("double", {{17, 6145}});
}

// The CPU has no kernel for 16-bit rows with float sums, so it computes with float rows of the same
// values.
TEST(LayerNormGradTest, SixteenBitRowsMatchFloatsOnCpu) {
  for (const char* const dtype : {"half", "bfloat16"}) {
    const auto device = *CreateCudaDevice(0, 0);
    NodesOnDevice nodes(device.get(), &CpuAndGpuKernels());
    std::vector<std::unique_ptr<CaseNode>> made;
    std::vector<OpCase> floats;
    for (const Matrix& m : {Matrix{70, 9}, Matrix{19, 1000}, Matrix{9, 4100}, Matrix{17, 12300}}) {
      OpCase op_case = GradientCase(dtype, m);
      made.push_back(std::make_unique<CaseNode>(*MakeCaseNode(op_case, AllOps())));
      ASSERT_TRUE(nodes.Add(*made.back()).ok());
      for (int i = 0; i < 2; ++i) {
        const OpCase cast{
            .op = "Cast",
            .attrs = {{"SrcT", op_case.operands[i].value.dtype()}, {"DstT", DT_FLOAT}},
            .operands = {op_case.operands[i]}};
        op_case.operands[i].value =
            EvaluateCase(*MakeCaseNode(cast, AllOps()), CpuAndGpuKernels())->at(0);
      }
      op_case.attrs["T"] = DT_FLOAT;
      floats.push_back(std::move(op_case));
    }
    ASSERT_EQ(nodes.Finish(), absl::OkStatus());
    for (size_t n = 0; n < made.size(); ++n) {
      const auto want = EvaluateCase(*MakeCaseNode(floats[n], AllOps()), CpuAndGpuKernels());
      const auto got = nodes.Run(static_cast<int>(n));
      ASSERT_TRUE(want.ok() && got.ok()) << want.status() << got.status();
      const OpCase cast{.op = "Cast",
                        .attrs = {{"SrcT", DT_FLOAT}, {"DstT", got->at(0).dtype()}},
                        .operands = {{want->at(0)}}};
      const Tensor dx = EvaluateCase(*MakeCaseNode(cast, AllOps()), CpuAndGpuKernels())->at(0);
      const Tolerance rounding = {.relative = RoundingUnit(dx.dtype()), .absolute = 1e-5};
      EXPECT_EQ(Difference(dx, got->at(0), rounding), "") << floats[n].ToString();
      const Tolerance sums = {.relative = 1e-5, .absolute = 1e-5};
      EXPECT_EQ(Difference(want->at(1), got->at(1), sums), "") << floats[n].ToString();
      EXPECT_EQ(Difference(want->at(2), got->at(2), sums), "") << floats[n].ToString();
    }
  }
}

TEST(LayerNormGradTest, RowsAreReadByOneLaunch) {
  for (const Matrix& m : {Matrix{4096, 8}, Matrix{4096, 1024}, Matrix{64, 5000}}) {
    CudaProgram program;
    const CaseNode node = *MakeCaseNode(GradientCase("half", m), AllOps());
    ASSERT_TRUE(CpuAndGpuKernels().Create(kGpu, *ContextOf(node, &program)).ok());
    int launches = 0, readers_of_dy = 0, readers_of_x = 0;
    const std::vector<std::string> kernels = absl::StrSplit(program.Source(), "__global__");
    for (const std::string& kernel : kernels) {
      const size_t body = kernel.find("{\n");
      if (body == std::string::npos) continue;
      ++launches;
      readers_of_dy += absl::StrContains(kernel.substr(body), "a0") ? 1 : 0;
      readers_of_x += absl::StrContains(kernel.substr(body), "a1") ? 1 : 0;
    }
    EXPECT_EQ(launches, 2);
    EXPECT_EQ(readers_of_dy, 1);
    EXPECT_EQ(readers_of_x, 1);
  }
}

}  // namespace
}  // namespace mirrorflow
