// SPDX-License-Identifier: Apache-2.0
//
// NVRTC compiles for a GPU the code that the fakes compile for the host. It is stricter in some
// respects and knows different functions.
#include <map>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "kernels/cuda/compile.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/program.h"
#include "ops/registry.h"
#include "tests/support/run_on_device.h"

namespace mirrorflow {
namespace {

constexpr char kArch[] = "sm_90";

const KernelRegistry& Kernels() {
  static const KernelRegistry* const registry = [] {
    auto* kernels = new KernelRegistry();
    RegisterCudaKernels(*kernels);
    return kernels;
  }();
  return *registry;
}

// cuBLASLt and cuDNN start only where there is a GPU, and their kernels are not our code.
bool NeedsAGpu(const absl::Status& status) {
  return absl::StrContains(status.message(), "cublasLtCreate") ||
         absl::StrContains(status.message(), "cudnnCreate");
}

// The first case of each op for each set of dtypes.
std::vector<OpCase> OneCaseEach() {
  std::vector<OpCase> chosen;
  std::set<std::string> seen;
  for (const char* folder : {"tests/references/cases", "tests/ops/cases"}) {
    const absl::StatusOr<std::vector<OpCase>> cases = LoadOpCases(folder);
    EXPECT_TRUE(cases.ok()) << cases.status();
    if (!cases.ok()) continue;
    for (const OpCase& op_case : *cases) {
      if (op_case.fails || !Kernels().Has(op_case.op, kGpu)) continue;
      std::string key = op_case.op;
      bool empty = false;
      for (const OpCase::Operand& operand : op_case.operands) {
        key += " " + std::string(DataTypeName(operand.value.dtype()));
        empty = empty || operand.value.num_elements() == 0;
      }
      if (!empty && seen.insert(key).second) chosen.push_back(op_case);
    }
  }
  return chosen;
}

TEST(NvrtcTest, CompilesKernelsOfAllOps) {
  CudaProgram program;
  std::set<std::string> ops;
  for (const OpCase& op_case : OneCaseEach()) {
    const absl::StatusOr<CaseNode> node = MakeCaseNode(op_case, AllOps());
    ASSERT_TRUE(node.ok()) << op_case.ToString() << ": " << node.status();
    const auto plan = Kernels().Create(kGpu, *ContextOf(*node, &program));
    EXPECT_TRUE(plan.ok() || NeedsAGpu(plan.status()))
        << op_case.ToString() << ": " << plan.status();
    ops.insert(op_case.op);
  }
  for (const std::string& op : Kernels().Ops(kGpu)) {
    // Ops that only passes create have no cases.
    EXPECT_TRUE(AllOps().Find(op) == nullptr || ops.count(op) == 1) << op;
  }
  const absl::StatusOr<std::string> code = CompileCudaFor(program.Source(), kArch);
  EXPECT_TRUE(code.ok()) << code.status();
}

TEST(NvrtcTest, ErrorQuotesCompilerMessage) {
  CudaProgram program;
  program.Add({.parameters = "float* x", .body = "x[0] = nothing;"});
  const absl::StatusOr<std::string> code = CompileCudaFor(program.Source(), kArch);
  ASSERT_EQ(code.status().code(), absl::StatusCode::kInternal);
  EXPECT_NE(code.status().message().find("identifier \"nothing\" is undefined"),
            absl::string_view::npos)
      << code.status();
}

}  // namespace
}  // namespace mirrorflow
