// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/group_updates.h"

#include <string>
#include <vector>

#include "framework/core/status.h"
#include "gtest/gtest.h"
#include "ops/fused_ops.h"
#include "tests/support/compilation.h"

namespace mirrorflow {
namespace {

// Of devices that have kernels for groups; what these compute, tests/cuda/session_test.cc looks at.
const KernelRegistry& Kernels() {
  static const KernelRegistry* const registry = [] {
    auto* kernels = new KernelRegistry();
    for (const char* op : {"ResourceApplyGradientDescent", "ResourceApplyMomentum"}) {
      kernels->Register(ops::MultiTensor(op), "CPU",
                        [](const KernelContext&) -> absl::StatusOr<KernelPlan> {
                          return absl::UnimplementedError("never run");
                        });
    }
    return kernels;
  }();
  return *registry;
}

constexpr char kVariables[] = R"(
x = Placeholder() {dtype=float, shape=<4>}
rate = Placeholder() {dtype=float, shape=<>}
gate = Placeholder() {dtype=bool, shape=<>}
a = VarHandleOp() {dtype=float, shape=<4>, shared_name="a"}
b = VarHandleOp() {dtype=float, shape=<4>, shared_name="b"}
c = VarHandleOp() {dtype=float, shape=<4>, shared_name="c"}
)";

// The updates after the pass: `op(inputs)` a line.
std::vector<std::string> Updates(const std::string& text, std::vector<std::string> targets,
                                 int64_t bucket_bytes = 1 << 20,
                                 const KernelRegistry& kernels = Kernels(),
                                 const std::vector<std::string>& collectives = {}) {
  StepNames names{.targets = std::move(targets)};
  names.bucket_bytes = bucket_bytes;
  const auto step = ParseStep(kVariables + text, names);
  if (!step.ok()) {
    ADD_FAILURE() << step.status();
    return {};
  }
  Compilation& c = (*step)->c;
  c.kernels = &kernels;
  for (const std::string& name : collectives) {
    c.collectives.push_back(c.graph.FindNode(name));
  }
  const absl::Status ran = RunPasses(c, GroupUpdates());
  EXPECT_TRUE(ran.ok()) << ran;
  std::vector<std::string> updates;
  for (const Node* node : c.graph.Nodes()) {
    if (node->op().role != OpRole::kWrite) continue;
    std::string line = node->op().name + "(";
    for (const Output& input : node->inputs()) line += " " + input.ToString();
    updates.push_back(line + " )");
  }
  return updates;
}

using Lines = std::vector<std::string>;

TEST(GroupUpdatesTest, UpdatesThatDifferInVariablesAloneAreOne) {
  EXPECT_EQ(Updates(R"(
g = Neg(x) {T=float}
u = ResourceApplyGradientDescent(a, rate, x) {T=float}
v = ResourceApplyGradientDescent(b, rate, g) {T=float}
w = ResourceApplyGradientDescent(c, rate, x) {T=float}
)",
                    {"u", "v", "w"}),
            Lines({"ResourceApplyGradientDescentMultiTensor( a b c rate x g x )"}));
}

TEST(GroupUpdatesTest, WhatDiffersOtherwiseStaysApart) {
  // Another rate, a gate, and another optimizer.
  EXPECT_EQ(Updates(R"(
u = ResourceApplyGradientDescent(a, rate, x) {T=float}
faster = AddV2(rate, rate) {T=float}
v = ResourceApplyGradientDescent(b, faster, x) {T=float}
w = ResourceApplyGradientDescent(c, rate, x, gate) {T=float, _gates=1}
)",
                    {"u", "v", "w"})
                .size(),
            3);
  // A bucket each.
  const std::string alike = R"(
u = ResourceApplyGradientDescent(a, rate, x) {T=float}
v = ResourceApplyGradientDescent(b, rate, x) {T=float}
)";
  EXPECT_EQ(Updates(alike, {"u", "v"}, /*bucket_bytes=*/16).size(), 2);
  EXPECT_EQ(Updates(alike, {"u", "v"}).size(), 1);
  // Devices without such kernels.
  EXPECT_EQ(Updates(alike, {"u", "v"}, 1 << 20, KernelRegistry()).size(), 2);
}

TEST(GroupUpdatesTest, NothingIsReadInAKernelThatWritesIt) {
  const struct {
    const char *what, *text;
  } cases[] = {{"a variable is its own gradient", R"(
old = ReadVariableOp(a) {dtype=float}
u = ResourceApplyGradientDescent(a, rate, old) {T=float}
v = ResourceApplyGradientDescent(b, rate, x) {T=float}
)"},
               {"what the second writes is the gradient of the first", R"(
old = ReadVariableOp(b) {dtype=float}
u = ResourceApplyGradientDescent(a, rate, old) {T=float}
v = ResourceApplyGradientDescent(b, rate, x) {T=float}
)"},
               {"what the first writes is the gradient of the second", R"(
u = ResourceApplyGradientDescent(a, rate, x) {T=float}
old = ReadVariableOp(a) {dtype=float}
v = ResourceApplyGradientDescent(b, rate, old) {T=float}
)"},
               {"a variable is updated twice", R"(
u = ResourceApplyGradientDescent(b, rate, x) {T=float}
v = ResourceApplyGradientDescent(b, rate, x) {T=float}
)"},
               {"the second waits for the first", R"(
u = ResourceApplyGradientDescent(a, rate, x) {T=float}
new = ReadVariableOp(a, ^u) {dtype=float}
g = Neg(new) {T=float}
v = ResourceApplyGradientDescent(c, rate, g) {T=float}
)"}};
  for (const auto& each : cases) {
    EXPECT_EQ(Updates(each.text, {"u", "v"}).size(), 2) << each.what;
  }
}

// One update leads to a collective, and the other waits for one: together they need the one that
// the other waits for to be first.
TEST(GroupUpdatesTest, TheOrderOfCollectivesStaysAsItIs) {
  const std::string text = R"(
r = AllReduce(x) {N=1, T=float}
u = ResourceApplyGradientDescent(a, rate, x) {T=float}
v = ResourceApplyGradientDescent(b, rate, r) {T=float}
new = ReadVariableOp(a, ^u) {dtype=float}
s = AllReduce(new) {N=1, T=float}
)";
  EXPECT_EQ(Updates(text, {"u", "v", "s"}, 1 << 20, Kernels(), {"r", "s"}).size(), 1);
  EXPECT_EQ(Updates(text, {"u", "v", "s"}, 1 << 20, Kernels(), {"s", "r"}).size(), 2);
}

}  // namespace
}  // namespace mirrorflow
