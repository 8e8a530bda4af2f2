// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/fuse_updates.h"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "framework/core/status.h"
#include "framework/graph/gradients.h"
#include "framework/runtime/variable_layout.h"
#include "framework/session/step_plans.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "ops/fused_ops.h"
#include "ops/registry.h"
#include "tests/support/compilation.h"
#include "tests/support/op_checks.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"

namespace mirrorflow {
namespace {

constexpr int64_t kRows = 6, kIn = 150, kOut = 70;

// A training step of a layer y = x · w that minimizes |y|^2 / 2.
struct Layer {
  Graph graph;
  Output x, w, dw;
  Operation update;
  std::vector<Output> fetches;

  explicit Layer(const std::function<Output(const Scope&, const Layer&)>& delta,
                 const std::function<std::vector<Output>(const Scope&)>& gates = nullptr,
                 bool adam = false) {
    const Scope root(&graph);
    x = ops::Placeholder(root, DT_FLOAT, {-1, kIn});
    w = ops::VarHandleOp(root, DT_FLOAT, {kIn, kOut}, {.shared_name = "w"});
    const Output read = ops::ReadVariableOp(root, w);
    const Output y = ops::MatMul(root, x, read);
    dw = ops::MatMul(root, x, y, {.transpose_a = true});
    const Output rate = ops::ScalarConst(root, DT_FLOAT, 0.01);
    const Output gradient = delta == nullptr ? dw : delta(root, *this);
    const std::vector<Output> open = gates == nullptr ? std::vector<Output>() : gates(root);
    if (!adam) {
      update = ops::ResourceApplyGradientDescent(root, w, rate, gradient, {.gates = open});
      return;
    }
    const auto slot = [&](const char* name) {
      return ops::VarHandleOp(root, DT_FLOAT, {kIn, kOut}, {.shared_name = name});
    };
    const auto scalar = [&](double x) { return ops::ScalarConst(root, DT_FLOAT, x); };
    const ops::AdamScalars scalars = {.beta1_power = scalar(0.9),
                                      .beta2_power = scalar(0.999),
                                      .lr = rate,
                                      .beta1 = scalar(0.9),
                                      .beta2 = scalar(0.999),
                                      .epsilon = scalar(1e-3)};
    update =
        ops::ResourceApplyAdam(root, w, slot("m"), slot("v"), scalars, gradient, {.gates = open});
  }
};

struct Outcome {
  Tensor w;
  bool fused = false;
};

absl::StatusOr<Outcome> Train(const Layer& layer, int replicas, bool fuse, int64_t rows = kRows) {
  TestSessionOptions options{.replicas = replicas};
  if (!fuse) options.session.compile.disabled_passes = {"fuse_updates"};
  MF_ASSIGN_OR_RETURN(auto session, CreateTestSession(layer.graph, options));
  Random random(5);
  MF_RETURN_IF_ERROR(
      session->AssignVariable("w", RandomTensor(DT_FLOAT, Shape({kIn, kOut}), &random)));
  for (const VariableInfo& variable : session->layout().variables()) {
    if (variable.name == "w") continue;
    MF_ASSIGN_OR_RETURN(const Tensor zeros, Tensor::Allocate(DT_FLOAT, Shape({kIn, kOut})));
    MF_RETURN_IF_ERROR(session->AssignVariable(variable.name, zeros));
  }
  MF_ASSIGN_OR_RETURN(Step step, session->Prepare({layer.x}, layer.fetches, {layer.update}));
  const Tensor x = RandomTensor(DT_FLOAT, Shape({rows, kIn}), &random);
  for (int i = 0; i < 3; ++i) MF_RETURN_IF_ERROR(step.Run({x}).status());
  MF_ASSIGN_OR_RETURN(const StepPlans plans, CompileStep(step, {x.shape()}));
  const std::vector<std::string>& ops = plans.plans[0]->node_ops;
  const std::string& update = layer.update.node->op().name;
  Outcome outcome;
  outcome.fused = std::count(ops.begin(), ops.end(), ops::OfProduct(update)) > 0;
  MF_ASSIGN_OR_RETURN(outcome.w, session->ReadVariable("w"));
  return outcome;
}

// Returns whether the update is fused on one replica. The variable must have the same value with
// and without the pass.
bool Fuses(const Layer& layer) {
  const auto with = Train(layer, 1, true), without = Train(layer, 1, false);
  EXPECT_TRUE(with.ok()) << with.status();
  EXPECT_TRUE(without.ok()) << without.status();
  if (!with.ok() || !without.ok()) return false;
  EXPECT_EQ(Difference(without->w, with->w, {.relative = 1e-5, .absolute = 1e-5}), "");
  EXPECT_FALSE(without->fused);
  return with->fused;
}

TEST(FuseUpdatesTest, UpdateIsFusedIntoProduct) { EXPECT_TRUE(Fuses(Layer(nullptr))); }

TEST(FuseUpdatesTest, AdamUpdateIsFused) {
  EXPECT_TRUE(Fuses(Layer(nullptr, nullptr, /*adam=*/true)));
}

TEST(FuseUpdatesTest, FusedUpdateObeysGates) {
  const Layer shut(nullptr, [](const Scope& scope) {
    return std::vector<Output>{ops::Const(scope, Tensor::Scalar<bool>(true)),
                               ops::Const(scope, Tensor::Scalar<bool>(false))};
  });
  EXPECT_TRUE(Fuses(shut));
  const auto after = Train(shut, 1, true);
  ASSERT_TRUE(after.ok()) << after.status();
  Random random(5);
  EXPECT_EQ(Difference(RandomTensor(DT_FLOAT, Shape({kIn, kOut}), &random), after->w, {}), "");
}

TEST(FuseUpdatesTest, GradientWithOtherUsesIsNotFused) {
  Layer fetched(nullptr);
  fetched.fetches = {fetched.dw};
  EXPECT_FALSE(Fuses(fetched));
  Layer used(nullptr);
  used.fetches = {ops::Neg(Scope(&used.graph), used.dw)};
  EXPECT_FALSE(Fuses(used));
}

// If the update were fused, aᵀ · w would read w while the update overwrites it.
TEST(FuseUpdatesTest, ProductThatReadsVariableIsNotFused) {
  const Layer layer([](const Scope& scope, const Layer& l) {
    const Output read = ops::ReadVariableOp(scope, l.w);
    Random random(9);
    const Output a = ops::Const(scope, RandomTensor(DT_FLOAT, Shape({kIn, kIn}), &random));
    return ops::MatMul(scope, a, ops::Identity(scope, read), {.transpose_a = true});
  });
  EXPECT_FALSE(Fuses(layer));
}

// If the rows are smaller than the gradient, replicas read each other's rows instead of reducing
// the gradient.
TEST(FuseUpdatesTest, ReplicasShareFewRowsAndReduceGradientOfManyRows) {
  const Layer layer(nullptr);
  for (const int64_t rows : {kRows, 10 * kRows}) {
    const auto two = Train(layer, 2, true, rows), one = Train(layer, 1, true, rows);
    ASSERT_TRUE(two.ok()) << two.status();
    ASSERT_TRUE(one.ok()) << one.status();
    EXPECT_EQ(two->fused, rows == kRows);
    EXPECT_TRUE(one->fused);
    EXPECT_EQ(Difference(one->w, two->w, {.relative = 1e-5, .absolute = 1e-5}), "");
  }
}

// Returns kernels that make the device support merged updates. The kernels never run;
// tests/cuda/session_test.cc checks what real ones compute.
const KernelRegistry& KernelsOfBuckets() {
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

// Returns the update nodes after the pass, each as `op(inputs)`.
std::vector<std::string> Updates(const std::string& text, std::vector<std::string> targets,
                                 int64_t bucket_bytes = 1 << 20,
                                 const KernelRegistry& kernels = KernelsOfBuckets(),
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
  const absl::Status ran = RunPasses(c, FuseUpdates());
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

TEST(FuseUpdatesOfBucketTest, UpdatesWithDifferentVariablesAndGradientsAreMerged) {
  EXPECT_EQ(Updates(R"(
g = Neg(x) {T=float}
u = ResourceApplyGradientDescent(a, rate, x) {T=float}
v = ResourceApplyGradientDescent(b, rate, g) {T=float}
w = ResourceApplyGradientDescent(c, rate, x) {T=float}
)",
                    {"u", "v", "w"}),
            Lines({"ResourceApplyGradientDescentMultiTensor( a b c rate x g x )"}));
}

TEST(FuseUpdatesOfBucketTest, UpdatesWithOtherDifferencesAreNotMerged) {
  // The first two updates have different rates, and the third has a gate.
  EXPECT_EQ(Updates(R"(
u = ResourceApplyGradientDescent(a, rate, x) {T=float}
faster = AddV2(rate, rate) {T=float}
v = ResourceApplyGradientDescent(b, faster, x) {T=float}
w = ResourceApplyGradientDescent(c, rate, x, gate) {T=float, _gates=1}
)",
                    {"u", "v", "w"})
                .size(),
            3);
  // These updates are merged unless the bucket size is so small that each has its own bucket.
  const std::string alike = R"(
u = ResourceApplyGradientDescent(a, rate, x) {T=float}
v = ResourceApplyGradientDescent(b, rate, x) {T=float}
)";
  EXPECT_EQ(Updates(alike, {"u", "v"}, /*bucket_bytes=*/16).size(), 2);
  EXPECT_EQ(Updates(alike, {"u", "v"}).size(), 1);
  // Without kernels for merged updates, these updates are not merged, either.
  EXPECT_EQ(Updates(alike, {"u", "v"}, 1 << 20, KernelRegistry()).size(), 2);
}

TEST(FuseUpdatesOfBucketTest, MergedKernelReadsNoVariableItWrites) {
  const struct {
    const char *what, *text;
  } cases[] = {{"a variable is its own gradient", R"(
old = ReadVariableOp(a) {dtype=float}
u = ResourceApplyGradientDescent(a, rate, old) {T=float}
v = ResourceApplyGradientDescent(b, rate, x) {T=float}
)"},
               {"the second writes the gradient of the first", R"(
old = ReadVariableOp(b) {dtype=float}
u = ResourceApplyGradientDescent(a, rate, old) {T=float}
v = ResourceApplyGradientDescent(b, rate, x) {T=float}
)"},
               {"the first writes the gradient of the second", R"(
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

// `s` depends on one update, and the other update depends on `r`. The updates can be merged only if
// `r` precedes `s`.
TEST(FuseUpdatesOfBucketTest, MergingKeepsOrderOfCollectives) {
  const std::string text = R"(
r = AllReduce(x) {N=1, T=float}
u = ResourceApplyGradientDescent(a, rate, x) {T=float}
v = ResourceApplyGradientDescent(b, rate, r) {T=float}
new = ReadVariableOp(a, ^u) {dtype=float}
s = AllReduce(new) {N=1, T=float}
)";
  EXPECT_EQ(Updates(text, {"u", "v", "s"}, 1 << 20, KernelsOfBuckets(), {"r", "s"}).size(), 1);
  EXPECT_EQ(Updates(text, {"u", "v", "s"}, 1 << 20, KernelsOfBuckets(), {"s", "r"}).size(), 2);
}

}  // namespace
}  // namespace mirrorflow
