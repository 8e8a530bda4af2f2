// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/fuse_relu_grad.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "gtest/gtest.h"
#include "ops/fused_ops.h"
#include "ops/matmul.h"
#include "ops/passes/fuse_bias.h"
#include "tests/support/compilation.h"

namespace mirrorflow {
namespace {

// Of devices that have kernels for fused nodes; what these compute, tests/cuda/strategy_test.cc
// looks at.
const KernelRegistry& Kernels() {
  static const KernelRegistry* const registry = [] {
    auto* kernels = new KernelRegistry();
    for (const std::string& op : {ops::WithBias(ops::kMatMul), ops::WithBiasAndRelu(ops::kMatMul),
                                  std::string(ops::kMatMulReluGrad)}) {
      kernels->Register(op, "CPU", [](const KernelContext&) -> absl::StatusOr<KernelPlan> {
        return absl::UnimplementedError("never run");
      });
    }
    return kernels;
  }();
  return *registry;
}

// The gradients come before the layer that they are of: what FuseBias makes is newer than both.
constexpr char kLayer[] = R"(
x = Placeholder() {dtype=float, shape=<6,4>}
w = Placeholder() {dtype=float, shape=<4,5>}
b = Placeholder() {dtype=float, shape=<5>}
dz = Placeholder() {dtype=float, shape=<6,3>}
v = Placeholder() {dtype=float, shape=<5,3>}
product = MatMul(x, w) {T=float}
sum = BiasAdd(product, b) {T=float}
act = Relu(sum) {T=float}
dact = MatMul(dz, v) {T=float, transpose_b=true}
dsum = ReluGrad(dact, act) {T=float}
db = BiasAddGrad(dsum) {T=float}
dw = MatMul(x, dsum) {T=float, transpose_a=true}
)";

// The step behind both passes: a line a node, without placeholders.
std::string Fused(const std::string& more, std::vector<std::string> fetches,
                  const KernelRegistry& kernels = Kernels()) {
  const auto step = ParseStep(kLayer + more, {.fetches = std::move(fetches)});
  if (!step.ok()) return step.status().ToString();
  Compilation& c = (*step)->c;
  c.kernels = &kernels;
  c.RemoveDeadNodes();
  const absl::Status ran = RunPasses(c, FuseBias(), FuseReluGrad());
  if (!ran.ok()) return ran.ToString();
  std::string result;
  for (const Node* node : c.graph.Nodes()) {
    if (node->op().role == OpRole::kPlaceholder) continue;
    absl::StrAppend(&result, node->op().name, "(");
    for (const Output& input : node->inputs()) absl::StrAppend(&result, " ", input.ToString());
    absl::StrAppend(&result, " )");
    for (int i = 0; i < node->num_outputs(); ++i) {
      absl::StrAppend(&result, " ", c.values().shape(node->output(i)).ToString());
    }
    result += "\n";
  }
  return "\n" + result;
}

TEST(FuseReluGradTest, TheGradientsOfReluAndBiasAreMadeByTheProduct) {
  EXPECT_EQ(Fused("", {"act", "db", "dw"}), R"(
MatMul( x dsum_1 ) [4,5]
_FusedMatMulRelu( x w b ) [6,5] [6,16]
_MatMulReluGrad( dz v act_1_1:1 act_1_1 ) [6,5] [5]
)");
}

TEST(FuseReluGradTest, WhatDoesNotFitStays) {
  const auto stays = [](const std::string& more, std::vector<std::string> fetches) {
    const std::string fused = Fused(more, std::move(fetches));
    return fused.find("ReluGrad( dact act") != std::string::npos &&
           fused.find("_MatMulReluGrad") == std::string::npos;
  };
  // Somebody else needs the product, or the step does; there is no bias; no such kernels.
  EXPECT_TRUE(stays("other = Neg(dact) {T=float}", {"db", "dw", "other"}));
  EXPECT_TRUE(stays("", {"db", "dw", "dact"}));
  EXPECT_TRUE(stays("", {"dw"}));
  EXPECT_EQ(Fused("", {"db"}, KernelRegistry()).find("_"), std::string::npos);
}

}  // namespace
}  // namespace mirrorflow
