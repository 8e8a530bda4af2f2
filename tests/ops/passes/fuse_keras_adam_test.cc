// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/fuse_keras_adam.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "framework/core/status.h"
#include "framework/session/step_plans.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "ops/fused_ops.h"
#include "ops/update.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"

namespace mirrorflow {
namespace {

constexpr int64_t kIn = 40, kOut = 33;
constexpr const char* kVariables[] = {"w", "m", "v"};

// A training step of a layer y = x · w that minimizes |y|² / 2, with Adam as Keras composes it.
// Tests change parts of it.
struct Layer {
  using Change = std::function<void(Layer&)>;

  Graph graph;
  const Scope root{&graph};
  Output x, w, m, v;
  Output gradient, gradient_of_v, alpha, rate1, rate2, epsilon;
  Operation assign_m, assign_v, assign_w;
  std::vector<Output> fetches;
  std::vector<Operation> targets;

  // `before` can change operands before the update is built, `between` after the assignments of the
  // slots, and `after` can add nodes.
  explicit Layer(const Change& before = nullptr, const Change& after = nullptr,
                 const Change& between = nullptr) {
    const auto variable = [&](const char* name) {
      return ops::VarHandleOp(root, DT_FLOAT, {kIn, kOut}, {.shared_name = name});
    };
    w = variable("w"), m = variable("m"), v = variable("v");
    x = ops::Placeholder(root, DT_FLOAT, {-1, kIn});
    const Output y = ops::MatMul(root, x, ops::ReadVariableOp(root, w));
    gradient = gradient_of_v = ops::MatMul(root, x, y, {.transpose_a = true});
    const auto scalar = [&](double value) { return ops::ScalarConst(root, DT_FLOAT, value); };
    alpha = scalar(0.01), rate1 = scalar(0.1), rate2 = scalar(0.001), epsilon = scalar(1e-7);
    if (before) before(*this);
    assign_m = AddToAverage(m, gradient, rate1);
    assign_v = AddToAverage(v, ops::Square(root, gradient_of_v), rate2);
    if (between) between(*this);
    const auto read = [&](const Operation& assign, Output handle) {
      return ops::ReadVariableOp(root.WithControlDependencies({assign}), handle);
    };
    const Output root_of_v = ops::Sqrt(root, read(assign_v, v));
    const Output step = ops::RealDiv(root, ops::Mul(root, read(assign_m, m), alpha),
                                     ops::AddV2(root, root_of_v, epsilon));
    assign_w = ops::AssignSubVariableOp(root, w, step);
    targets = {assign_w};
    if (after) after(*this);
  }

  Operation AddToAverage(Output handle, Output of, Output rate) const {
    const Output difference = ops::Sub(root, of, ops::ReadVariableOp(root, handle));
    return ops::AssignAddVariableOp(root, handle, ops::Mul(root, difference, rate));
  }
};

struct Outcome {
  std::vector<Tensor> variables, fetches;
  std::vector<std::string> ops;  // of the first replica's plan
};

absl::StatusOr<Outcome> Train(const Layer& layer, int replicas, bool fuse) {
  TestSessionOptions options{.replicas = replicas};
  if (!fuse) options.session.compile.disabled_passes = {"fuse_keras_adam"};
  MF_ASSIGN_OR_RETURN(const auto session, CreateTestSession(layer.graph, options));
  Random random(7);
  for (const char* name : kVariables) {
    Tensor value = RandomTensor(DT_FLOAT, {kIn, kOut}, &random);
    for (float& element : value.flat<float>()) element = std::abs(element);
    MF_RETURN_IF_ERROR(session->AssignVariable(name, value));
  }
  MF_ASSIGN_OR_RETURN(Step step, session->Prepare({layer.x}, layer.fetches, layer.targets));
  const Tensor x = RandomTensor(DT_FLOAT, {6, kIn}, &random);
  Outcome outcome;
  for (int i = 0; i < 3; ++i) {
    MF_ASSIGN_OR_RETURN(const StepOutputs out, step.Run({x}));
    outcome.fetches.clear();
    for (size_t f = 0; f < layer.fetches.size(); ++f) {
      MF_ASSIGN_OR_RETURN(outcome.fetches.emplace_back(), out[static_cast<int>(f)].Clone());
    }
  }
  for (const char* name : kVariables) {
    MF_ASSIGN_OR_RETURN(outcome.variables.emplace_back(), session->ReadVariable(name));
  }
  MF_ASSIGN_OR_RETURN(const StepPlans plans, CompileStep(step, {x.shape()}));
  outcome.ops = plans.plans[0]->node_ops;
  return outcome;
}

// Returns whether the pass fuses the update, on one replica and on three. The variables and fetches
// after three steps must be those without the pass.
bool IsFused(const Layer& layer) {
  const absl::StatusOr<Outcome> want = Train(layer, 1, /*fuse=*/false);
  EXPECT_TRUE(want.ok()) << want.status();
  int fused = 0;
  for (const int replicas : {1, 3}) {
    const absl::StatusOr<Outcome> got = Train(layer, replicas, /*fuse=*/true);
    EXPECT_TRUE(got.ok()) << got.status();
    if (!want.ok() || !got.ok()) return false;
    const auto expect_equal = [](const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
      for (size_t i = 0; i < a.size(); ++i) {
        EXPECT_EQ(Difference(a[i], b[i], {.relative = 1e-4, .absolute = 1e-5}), "") << i;
      }
    };
    expect_equal(want->variables, got->variables);
    expect_equal(want->fetches, got->fetches);
    fused += std::count_if(got->ops.begin(), got->ops.end(), [](const std::string& op) {
      return op.starts_with(ops::kResourceApplyKerasAdam);
    });
  }
  EXPECT_TRUE(fused == 0 || fused == 2) << fused;
  return fused == 2;
}

TEST(FuseKerasAdamTest, UpdateBecomesOneOp) { EXPECT_TRUE(IsFused(Layer())); }

TEST(FuseKerasAdamTest, WeightDecayBeforeUpdateIsKept) {
  EXPECT_TRUE(IsFused(Layer([](Layer& l) {
    const Output decay =
        ops::Mul(l.root, ops::ReadVariableOp(l.root, l.w), ops::ScalarConst(l.root, DT_FLOAT, 0.1));
    l.targets = {ops::AssignSubVariableOp(l.root, l.w, decay)};
  })));
}

TEST(FuseKerasAdamTest, NodesAfterEachPartFollowUpdate) {
  EXPECT_TRUE(IsFused(Layer(nullptr, [](Layer& l) {
    const Scope after = l.root.WithControlDependencies({l.assign_m, l.assign_w});
    l.fetches = {ops::ReadVariableOp(after, l.w)};
    l.targets = {l.assign_v, l.assign_w};
  })));
}

TEST(FuseKerasAdamTest, SlotsThatOtherNodesAccessAreNotFused) {
  EXPECT_FALSE(IsFused(Layer(nullptr, [](Layer& l) {
    l.fetches = {ops::ReadVariableOp(l.root.WithControlDependencies({l.assign_m}), l.m)};
  })));
  EXPECT_FALSE(IsFused(Layer(nullptr, [](Layer& l) {
    // Another handle of the same variable.
    const Output v = ops::VarHandleOp(l.root, DT_FLOAT, {kIn, kOut}, {.shared_name = "v"});
    l.fetches = {ops::ReadVariableOp(l.root, v)};
  })));
}

TEST(FuseKerasAdamTest, OtherFormulasAreNotFused) {
  // The averages are of different gradients.
  EXPECT_FALSE(
      IsFused(Layer([](Layer& l) { l.gradient_of_v = ops::Mul(l.root, l.gradient, l.gradient); })));
  // The rates are not scalars.
  EXPECT_FALSE(IsFused(Layer(
      [](Layer& l) { l.rate1 = ops::Fill(l.root, ops::VectorConst(l.root, {kOut}), l.rate1); })));
}

TEST(FuseKerasAdamTest, UpdateWhoseStepSizeFollowsItsSlotsIsNotFused) {
  EXPECT_FALSE(IsFused(Layer(nullptr, nullptr, [](Layer& l) {
    const Scope after = l.root.WithControlDependencies({l.assign_v});
    l.alpha = ops::Mul(after, l.alpha, ops::Mean(after, ops::ReadVariableOp(after, l.w)));
  })));
}

}  // namespace
}  // namespace mirrorflow
