// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/fuse_elementwise.h"

#include <string>

#include "framework/core/status.h"
#include "gtest/gtest.h"
#include "ops/fused_ops.h"
#include "tests/support/compilation.h"

namespace mirrorflow {
namespace {

// Returns kernels that make the device support fused nodes. tests/cuda/session_test.cc checks what
// a real one computes.
const KernelRegistry& Kernels() {
  static const KernelRegistry* const registry = [] {
    auto* kernels = new KernelRegistry();
    kernels->Register(ops::kFusedElementwise, "CPU",
                      [](const KernelContext&) -> absl::StatusOr<KernelPlan> {
                        return absl::UnimplementedError("never run");
                      });
    return kernels;
  }();
  return *registry;
}

constexpr char kInputs[] = R"(
x = Placeholder() {dtype=float, shape=<4,3>}
b = Placeholder() {dtype=float, shape=<3>}
n = Placeholder() {dtype=int32, shape=<4,3>}
)";

// Returns the step's text after the pass, followed by the fused nodes' bodies.
absl::StatusOr<std::string> Fused(const std::string& text, std::vector<std::string> fetches,
                                  const KernelRegistry& kernels = Kernels()) {
  MF_ASSIGN_OR_RETURN(const auto step, ParseStep(kInputs + text, {.fetches = std::move(fetches)}));
  Compilation& c = step->c;
  c.kernels = &kernels;
  c.RemoveDeadNodes();
  MF_RETURN_IF_ERROR(RunPasses(c, FuseElementwise()));
  std::string result = StepToText(c);
  for (const Node* node : c.graph.Nodes()) {
    if (node->op().name == ops::kFusedElementwise) {
      result += "--\n" + node->attr<std::string>(ops::kBodyAttr);
    }
  }
  return result;
}

void ExpectFused(const std::string& text, std::vector<std::string> fetches,
                 const std::string& want) {
  const auto got = Fused(text, std::move(fetches));
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ("\n" + *got, want);
}

TEST(FuseElementwiseTest, ChainBecomesOneNodeWithBroadcastInputs) {
  ExpectFused(R"(
sum = AddV2(x, b) {T=float}
act = Tanh(sum) {T=float}
out = Mul(act, x) {T=float}
)",
              {"out"}, R"(
x = Placeholder()
b = Placeholder()
out_1 = _FusedElementwise(x, b)
--
x0 = Placeholder() {dtype=float}
x1 = Placeholder() {dtype=float}
t0 = AddV2(x0, x1) {T=float}
t1 = Tanh(t0) {T=float}
t2 = Mul(t1, x0) {T=float}
)");
}

// A value that is used twice within the tree is fused. A value that is fetched or used outside the
// tree is not.
TEST(FuseElementwiseTest, ValuesWithOtherUsesAreNotFused) {
  ExpectFused(R"(
act = Sigmoid(x) {T=float}
twice = Square(act) {T=float}
out = Mul(act, twice) {T=float}
kept = Exp(x) {T=float}
left = Neg(kept) {T=float}
right = Sqrt(left) {T=float}
)",
              {"out", "kept", "right"}, R"(
x = Placeholder()
kept = Exp(x)
right_1 = _FusedElementwise(kept)
out_1 = _FusedElementwise(x)
--
x0 = Placeholder() {dtype=float}
t0 = Neg(x0) {T=float}
t1 = Sqrt(t0) {T=float}
--
x0 = Placeholder() {dtype=float}
t0 = Sigmoid(x0) {T=float}
t1 = Square(t0) {T=float}
t2 = Mul(t0, t1) {T=float}
)");
}

// Reading x and computing `scaled` again is as fast as reading `scaled`, which need not be stored.
TEST(FuseElementwiseTest, CheapValueIsComputedInEachTree) {
  ExpectFused(R"(
scaled = Mul(x, b) {T=float}
left = Exp(scaled) {T=float}
right = Tanh(scaled) {T=float}
)",
              {"left", "right"}, R"(
x = Placeholder()
b = Placeholder()
right_1 = _FusedElementwise(x, b)
left_1 = _FusedElementwise(x, b)
--
x0 = Placeholder() {dtype=float}
x1 = Placeholder() {dtype=float}
t0 = Mul(x0, x1) {T=float}
t1 = Tanh(t0) {T=float}
--
x0 = Placeholder() {dtype=float}
x1 = Placeholder() {dtype=float}
t0 = Mul(x0, x1) {T=float}
t1 = Exp(t0) {T=float}
)");
}

// A value with a smaller shape would be recomputed for each element. Integers, checks and control
// edges are not supported.
TEST(FuseElementwiseTest, UnsupportedNodesAreUnchanged) {
  const std::string text = R"(
small = Tanh(b) {T=float}
one = AddV2(x, small) {T=float}
checked = CheckNumerics(x) {T=float, message="x"}
two = Neg(checked) {T=float}
whole = Neg(n) {T=int32}
three = Square(whole) {T=int32}
first = Exp(x) {T=float}
four = Neg(first) {T=float}
late = Relu(x, ^first) {T=float}
)";
  const auto got = Fused(text, {"one", "two", "three", "four", "late"});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->find(ops::kFusedElementwise), std::string::npos) << *got;
}

TEST(FuseElementwiseTest, DevicesWithoutKernelHaveNoFusedNodes) {
  static const KernelRegistry* const none = new KernelRegistry();
  const auto got = Fused("a = Exp(x) {T=float}\ny = Neg(a) {T=float}\n", {"y"}, *none);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->find(ops::kFusedElementwise), std::string::npos) << *got;
}

// If a tree has more inputs than a kernel can read, it becomes several nodes.
TEST(FuseElementwiseTest, LargeTreeIsSplit) {
  std::string text = "s0 = Neg(x) {T=float}\n";
  for (int i = 1; i <= 40; ++i) {
    text += "p" + std::to_string(i) + " = Placeholder() {dtype=float, shape=<4,3>}\n";
    text += "s" + std::to_string(i) + " = AddV2(s" + std::to_string(i - 1) + ", p" +
            std::to_string(i) + ") {T=float}\n";
  }
  const auto got = Fused(text, {"s40"});
  ASSERT_TRUE(got.ok()) << got.status();
  int nodes = 0;
  for (size_t at = 0; (at = got->find("_FusedElementwise(", at)) != std::string::npos; ++at) {
    ++nodes;
  }
  EXPECT_GE(nodes, 3) << *got;
}

}  // namespace
}  // namespace mirrorflow
