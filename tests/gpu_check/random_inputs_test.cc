// SPDX-License-Identifier: Apache-2.0
//
// Compares every GPU kernel with the CPU kernel on random numbers, in the shapes of the op's cases.
// Element-wise ops also get odd shapes that fill several blocks, and empty shapes.
#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/cuda/device/cuda_device.h"
#include "ops/registry.h"
#include "tests/support/cpu_and_gpu_kernels.h"
#include "tests/support/run_on_device.h"
#include "tests/support/tensors.h"

namespace mirrorflow {
namespace {

// Returns whether the numbers must not be random, because the op rejects some or terms cancel.
bool MustStay(const std::string& op) { return op == "CheckNumerics" || op == "Digamma"; }

// Integers are often indices or labels, so they keep their values.
bool IsFree(const CaseNode& node, int input) {
  return IsFloating(node.inputs[input].dtype()) && !node.node->is_static_input(input);
}

bool HasOneShape(const CaseNode& node) {
  for (const Tensor& input : node.inputs) {
    if (input.shape() != node.inputs[0].shape()) return false;
  }
  return !node.inputs.empty() && node.inputs[0].shape().rank() > 0;
}

void Refill(const CaseNode& node, const Shape* shape, Random* random, OpCase* op_case) {
  for (size_t i = 0; i < op_case->operands.size(); ++i) {
    Tensor& value = op_case->operands[i].value;
    const bool is_free = IsFree(node, static_cast<int>(i));
    if (!is_free && shape == nullptr) continue;
    value = RandomTensor(value.dtype(), shape != nullptr ? *shape : value.shape(), random);
  }
}

// Returns variants of `op_case` with random operands and no results; the CPU computes the results.
std::vector<OpCase> WithRandomInputs(const OpCase& op_case, Random* random) {
  std::vector<OpCase> all;
  const absl::StatusOr<CaseNode> node = MakeCaseNode(op_case, AllOps());
  if (op_case.fails || !node.ok() || op_case.operands.size() != node->inputs.size()) return all;
  OpCase blank = op_case;
  blank.outputs.clear();
  blank.after.clear();
  if (!MustStay(op_case.op)) {
    all.push_back(blank);
    Refill(*node, nullptr, random, &all.back());
  }
  if (!node->node->op().has(kElementwise) || MustStay(op_case.op) || !HasOneShape(*node)) {
    return all;
  }
  for (const Shape& shape : {Shape({4099}), Shape({3, 37, 41}), Shape({0, 5}), Shape({1})}) {
    all.push_back(blank);
    all.back().where = absl::StrCat(op_case.where, " in ", shape.ToString());
    Refill(*node, &shape, random, &all.back());
  }
  return all;
}

// Returns a key of everything that distinguishes two cases except their numbers.
std::string KindOf(const OpCase& op_case) {
  std::string kind = op_case.ToString().substr(op_case.where.size());
  for (const OpCase::Operand& operand : op_case.operands) {
    absl::StrAppend(&kind, " ", DataTypeName(operand.value.dtype()),
                    operand.value.shape().ToString());
  }
  return kind;
}

const std::map<std::string, std::vector<OpCase>>& CasesByOp() {
  static const auto* const cases = [] {
    auto* by_op = new std::map<std::string, std::vector<OpCase>>();
    std::set<std::string> seen;
    Random random(11);
    for (const char* folder : {"tests/references/cases", "tests/ops/cases"}) {
      const absl::StatusOr<std::vector<OpCase>> of_folder = LoadOpCases(folder);
      EXPECT_TRUE(of_folder.ok()) << of_folder.status();
      if (!of_folder.ok()) continue;
      for (const OpCase& op_case : *of_folder) {
        if (!CpuAndGpuKernels().Has(op_case.op, kGpu) || !seen.insert(KindOf(op_case)).second)
          continue;
        for (OpCase& made : WithRandomInputs(op_case, &random)) {
          // A case that the CPU rejects (an index may now be out of range) has no expected results.
          const absl::StatusOr<CaseNode> node = MakeCaseNode(made, AllOps());
          if (!node.ok() || !EvaluateCase(*node, CpuAndGpuKernels()).ok()) continue;
          (*by_op)[op_case.op].push_back(std::move(made));
        }
      }
    }
    return by_op;
  }();
  return *cases;
}

std::vector<std::string> OpsWithCases() {
  std::vector<std::string> ops;
  for (const std::string& op : CpuAndGpuKernels().Ops(kGpu)) {
    if (AllOps().Find(op) != nullptr) ops.push_back(op);
  }
  return ops;
}

class RandomInputs : public ::testing::TestWithParam<std::string> {};

TEST_P(RandomInputs, GpuKernelMatchesCpuKernel) {
  const auto cases = CasesByOp().find(GetParam());
  if (cases == CasesByOp().end()) return;  // no case of this op can be random
  auto device = CreateCudaDevice(0, 0);
  ASSERT_TRUE(device.ok()) << device.status();
  // Terms such as 1 - y² cancel, so differences of several rounding units are allowed.
  const CheckReport report =
      CheckCasesOnDevice(cases->second, AllOps(), CpuAndGpuKernels(), **device, /*units=*/8);
  EXPECT_TRUE(report.failures.empty()) << report.ToString();
  RecordProperty("cases", static_cast<int>(report.checked));
}

INSTANTIATE_TEST_SUITE_P(Ops, RandomInputs, ::testing::ValuesIn(OpsWithCases()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace mirrorflow
