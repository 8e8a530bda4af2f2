// SPDX-License-Identifier: Apache-2.0
//
// Tests element-wise kernels, which load and store packs of elements. The sizes are close to those
// of packs and blocks, and the shapes broadcast along packs, across packs, or not at all.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "framework/core/tensor.h"
#include "gtest/gtest.h"
#include "kernels/cuda/device/cuda_device.h"
#include "ops/fused_ops.h"
#include "ops/registry.h"
#include "tests/support/cpu_and_gpu_kernels.h"
#include "tests/support/ops_with_fused.h"
#include "tests/support/run_on_device.h"
#include "tests/support/tensors.h"

namespace mirrorflow {
namespace {

constexpr int64_t kSizes[] = {0, 1, 3, 4, 7, 8, 9, 1025, 2048, 2049};

class Packs : public testing::TestWithParam<const char*> {
 protected:
  Packs() : device_(*CreateCudaDevice(0, 0)) {}

  // Compares the kernels with the CPU kernels. In `text`, $0 is the dtype.
  void Check(const std::string& text) {
    const absl::StatusOr<std::vector<OpCase>> cases =
        ParseOpCases(absl::Substitute(text, GetParam()), "elementwise_test");
    ASSERT_TRUE(cases.ok()) << cases.status();
    const CheckReport report =
        CheckCasesOnDevice(*cases, AllOps(), CpuAndGpuKernels(), *device_, /*units=*/4);
    EXPECT_TRUE(report.failures.empty()) << report.ToString();
    EXPECT_EQ(report.checked, cases->size());
  }

  Tensor RandomValue(int64_t size) {
    return RandomTensor(*ParseDataType(GetParam()), Shape({size}), &random_);
  }

  Random random_{1};
  const std::shared_ptr<Device> device_;
};

TEST_P(Packs, OperandsWithOutputShapeMatchCpu) {
  std::string text;
  for (const int64_t n : kSizes) {
    absl::StrAppend(&text, "case Relu {T=$0}\nrandom $0<", n, ">\n\n");
    absl::StrAppend(&text, "case Greater {T=$0}\nrandom $0<", n, ">\nrandom $0<", n, ">\n\n");
    absl::StrAppend(&text, "case Cast {SrcT=$0, DstT=float}\nrandom $0<", n, ">\n\n");
    absl::StrAppend(&text, "case Cast {SrcT=float, DstT=$0}\nrandom float<", n, ">\n\n");
    absl::StrAppend(&text, "case SelectV2 {T=$0}\nrandom bool<", n, "> 2\nrandom $0<", n,
                    ">\nrandom $0<", n, ">\n\n");
  }
  Check(text);
}

TEST_P(Packs, BroadcastOperandsMatchCpu) {
  std::string text;
  const auto add = [&](const char* shape, const char* other) {
    absl::StrAppend(&text, "case AddV2 {T=$0}\nrandom $0", shape, "\nrandom $0", other, "\n\n");
    absl::StrAppend(&text, "case Sub {T=$0}\nrandom $0", other, "\nrandom $0", shape, "\n\n");
  };
  for (const int64_t n : kSizes) add(absl::StrCat("<", n, ">").c_str(), "<>");
  for (const char* columns : {"1", "7", "8", "12", "72"}) {
    const std::string matrix = absl::StrCat("<19,", columns, ">");
    add(matrix.c_str(), absl::StrCat("<", columns, ">").c_str());
    add(matrix.c_str(), "<19,1>");
    add(matrix.c_str(), "<1,1>");
    add(absl::StrCat("<3,5,", columns, ">").c_str(), absl::StrCat("<3,1,", columns, ">").c_str());
    add(absl::StrCat("<3,5,2,", columns, ">").c_str(), "<3,1,2,1>");
    for (const char* format : {"NHWC", "NCHW"}) {
      absl::StrAppend(&text, "case BiasAdd {T=$0, data_format=\"", format, "\"}\nrandom $0<2,",
                      columns, ",3,", columns, ">\nrandom $0<", columns, ">\n\n");
    }
  }
  // Both operands broadcast.
  absl::StrAppend(&text, "case Mul {T=$0}\nrandom $0<9,1>\nrandom $0<1,16>\n\n");
  absl::StrAppend(&text, "case Mul {T=$0}\nrandom $0<9,1>\nrandom $0<1,15>\n\n");
  Check(text);
}

// Packs are smaller if an op has many operands.
TEST_P(Packs, ManyOperandsMatchCpu) {
  std::string text;
  for (const int operands : {40, 200}) {
    absl::StrAppend(&text, "case AddN {T=$0, N=", operands, "}\n");
    for (int i = 0; i < operands; ++i) absl::StrAppend(&text, "random $0<1029>\n");
    absl::StrAppend(&text, "\n");
  }
  Check(text);
}

TEST_P(Packs, FusedOpsMatchSeparateOps) {
  const std::string t = absl::StrCat(" {T=", GetParam(), "}\n");
  const std::string placeholder = absl::StrCat(" = Placeholder() {dtype=", GetParam(), "}\n");
  const DataType dtype = *ParseDataType(GetParam());
  NodesOnDevice nodes(device_.get(), &CpuAndGpuKernels());
  std::vector<std::unique_ptr<CaseNode>> made;
  std::vector<Tensor> want;
  for (const int64_t n : kSizes) {
    OpCase op_case{
        .op = "AddV2", .attrs = {{"T", dtype}}, .operands = {{RandomValue(n)}, {RandomValue(n)}}};
    const OpCase add = op_case;
    const Tensor sum = EvaluateCase(*MakeCaseNode(op_case, AllOps()), CpuAndGpuKernels())->at(0);
    op_case.op = "Relu";
    op_case.operands = {{sum}};
    want.push_back(EvaluateCase(*MakeCaseNode(op_case, AllOps()), CpuAndGpuKernels())->at(0));
    op_case.op = ops::kFusedElementwise;
    op_case.attrs = {{"Tin", AttrList{dtype, dtype}},
                     {"T", dtype},
                     {"body", absl::StrCat("x0", placeholder, "x1", placeholder,
                                           "t0 = AddV2(x0, x1)", t, "t1 = Relu(t0)", t)}};
    op_case.operands = add.operands;
    absl::StatusOr<CaseNode> node = MakeCaseNode(op_case, OpsWithFused());
    ASSERT_TRUE(node.ok()) << node.status();
    made.push_back(std::make_unique<CaseNode>(*std::move(node)));
    ASSERT_TRUE(nodes.Add(*made.back()).ok());
  }
  ASSERT_EQ(nodes.Finish(), absl::OkStatus());
  for (size_t i = 0; i < made.size(); ++i) {
    const absl::StatusOr<std::vector<Tensor>> got = nodes.Run(static_cast<int>(i));
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(Difference(want[i], got->at(0), {}), "") << kSizes[i];
  }
}

// Compares updates of one variable with the CPU, and updates of all variables with updates of one.
TEST_P(Packs, FusedUpdatesMatchSeparateUpdatesAndCpu) {
  const DataType dtype = *ParseDataType(GetParam());
  const auto scalar = [&] { return OpCase::Operand{RandomTensor(dtype, Shape(), &random_)}; };
  std::vector<OpCase> cases;
  OpCase all{.op = ops::MultiTensor("ResourceApplyMomentum"),
             .attrs = {{"T", dtype}, {"N", static_cast<int>(std::size(kSizes))}}};
  const OpCase::Operand rate = scalar(), momentum = scalar();
  std::vector<OpCase::Operand> variables, slots, gradients;
  for (const int64_t n : kSizes) {
    variables.push_back({RandomValue(n), /*is_variable=*/true});
    slots.push_back({RandomValue(n), /*is_variable=*/true});
    gradients.push_back({RandomValue(n)});
    cases.push_back(
        {.op = "ResourceApplyMomentum",
         .attrs = {{"T", dtype}},
         .operands = {variables.back(), slots.back(), rate, gradients.back(), momentum}});
  }
  const CheckReport report =
      CheckCasesOnDevice(cases, AllOps(), CpuAndGpuKernels(), *device_, /*units=*/4);
  EXPECT_TRUE(report.failures.empty()) << report.ToString();

  all.operands = variables;
  all.operands.insert(all.operands.end(), slots.begin(), slots.end());
  all.operands.push_back(rate);
  all.operands.insert(all.operands.end(), gradients.begin(), gradients.end());
  all.operands.push_back(momentum);
  NodesOnDevice nodes(device_.get(), &CpuAndGpuKernels());
  std::vector<std::unique_ptr<CaseNode>> made;
  for (const OpCase& op_case : cases) {
    made.push_back(std::make_unique<CaseNode>(*MakeCaseNode(op_case, AllOps())));
    ASSERT_TRUE(nodes.Add(*made.back()).ok());
  }
  absl::StatusOr<CaseNode> node = MakeCaseNode(all, OpsWithFused());
  ASSERT_TRUE(node.ok()) << node.status();
  ASSERT_TRUE(nodes.Add(*node).ok());
  ASSERT_EQ(nodes.Finish(), absl::OkStatus());
  for (size_t i = 0; i <= made.size(); ++i) {
    ASSERT_TRUE(nodes.Run(static_cast<int>(i)).ok());
  }
  for (size_t i = 0; i < made.size(); ++i) {
    EXPECT_TRUE(Tensor::Identical(made[i]->inputs[0], node->inputs[i])) << kSizes[i];
    EXPECT_TRUE(Tensor::Identical(made[i]->inputs[1], node->inputs[made.size() + i])) << kSizes[i];
  }
}

INSTANTIATE_TEST_SUITE_P(ElementwiseTest, Packs,
                         testing::Values("half", "bfloat16", "float", "double"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace mirrorflow
