// SPDX-License-Identifier: Apache-2.0
//
// VarIsInitializedOp is evaluated when a step is compiled, and again when its result changes. An If
// whose predicate becomes known this way is replaced by the branch that it takes.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distribute/replicated_graph.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/oracle/interpreter.h"
#include "tests/support/is_error.h"
#include "tests/support/test_session.h"

namespace mirrorflow {
namespace {

using Outputs = std::vector<Output>;
using Args = absl::Span<const Output>;

class VariableStateTest : public testing::Test {
 protected:
  // Runs the step on three replicas and returns the value of `fetch`, which must equal the
  // interpreter's.
  float Run(Session& session, Step& step, const Output& fetch,
            const std::vector<Operation>& targets = {}) {
    auto reference = Interpreter::Create(graph_, TestKernels(), {.ops = &AllOps()});
    if (session.IsInitialized("v")) reference->variables()["v"] = *session.ReadVariable("v");
    const auto want = reference->Run({}, {fetch}, targets, {});
    EXPECT_TRUE(want.ok()) << want.status();
    const auto got = step.Run({});
    EXPECT_TRUE(got.ok()) << got.status();
    if (!want.ok() || !got.ok()) return -1;
    EXPECT_EQ((*want)[0].flat<float>()[0], (*got)[0].flat<float>()[0]);
    return (*got)[0].flat<float>()[0];
  }

  Output AsFloat(const Output& answer) { return ops::Cast(root_, answer, DT_FLOAT); }

  // Returns the value of the variable, or 7 if it has no value.
  Output ValueOrSeven(const Scope& scope, Output predicate, Output handle) {
    return ops::If(
        scope, predicate, {handle},
        [](const Scope& s, Args in) { return Outputs{ops::ReadVariableOp(s, in[0])}; },
        [](const Scope& s, Args) { return Outputs{ops::ScalarConst(s, DT_FLOAT, 7)}; })[0];
  }

  Graph graph_;
  Scope root_{&graph_};
  Output v_ = ops::VarHandleOp(root_, DT_FLOAT, {}, {.shared_name = "v"});
  Output is_set_ = ops::VarIsInitializedOp(root_, v_);
};

TEST_F(VariableStateTest, AnswerFollowsStateChange) {
  const Output answer = AsFloat(is_set_);
  auto session = *CreateTestSession(graph_, {.replicas = 3});
  Step step = *session->Prepare({}, {answer});
  EXPECT_EQ(Run(*session, step, answer), 0);
  EXPECT_EQ(Run(*session, step, answer), 0);
  ASSERT_TRUE(session->AssignVariable("v", Tensor::Scalar(2.0f)).ok());
  EXPECT_EQ(Run(*session, step, answer), 1);
}

TEST_F(VariableStateTest, StepThatWritesSeesStateBeforeWrite) {
  const Output answer = AsFloat(is_set_);
  const Operation write = ops::AssignVariableOp(root_, v_, ops::ScalarConst(root_, DT_FLOAT, 1));
  auto session = *CreateTestSession(graph_, {.replicas = 3});
  Step step = *session->Prepare({}, {answer}, {write});
  EXPECT_EQ(Run(*session, step, answer, {write}), 0);
  EXPECT_EQ(Run(*session, step, answer, {write}), 1);
}

TEST_F(VariableStateTest, AnswerReflectsWriteOrderedBeforeIt) {
  const Operation write = ops::AssignVariableOp(root_, v_, ops::ScalarConst(root_, DT_FLOAT, 1));
  const Output answer =
      AsFloat(ops::VarIsInitializedOp(root_.WithControlDependencies({{write}}), v_));
  auto session = *CreateTestSession(graph_, {.replicas = 3});
  Step step = *session->Prepare({}, {answer});
  EXPECT_EQ(Run(*session, step, answer), 1);
}

TEST_F(VariableStateTest, UntakenBranchCanReadUninitialisedVariable) {
  const Output value = ValueOrSeven(root_, is_set_, v_);
  auto session = *CreateTestSession(graph_, {.replicas = 3});
  Step step = *session->Prepare({}, {value});
  EXPECT_EQ(Run(*session, step, value), 7);
  ASSERT_TRUE(session->AssignVariable("v", Tensor::Scalar(2.0f)).ok());
  EXPECT_EQ(Run(*session, step, value), 2);
}

// tf.function does the same with variables that it creates: it initialises them only in the first
// call.
TEST_F(VariableStateTest, BranchInitialisesOnlyInFirstStep) {
  const Outputs done = ops::If(
      root_, ops::LogicalNot(root_, is_set_), {v_},
      [](const Scope& s, Args in) {
        const Operation write = ops::AssignVariableOp(s, in[0], ops::ScalarConst(s, DT_FLOAT, 5));
        const Scope after = s.WithControlDependencies({{write}});
        return Outputs{ops::Identity(after, ops::Const(s, Tensor::Scalar(true)))};
      },
      [](const Scope& s, Args) { return Outputs{ops::Const(s, Tensor::Scalar(false))}; });
  const Scope after = root_.WithControlDependencies({{done[0].node}});
  const Operation add = ops::AssignAddVariableOp(after, v_, ops::ScalarConst(root_, DT_FLOAT, 1));
  const Output value = ops::ReadVariableOp(root_.WithControlDependencies({{add}}), v_);
  auto session = *CreateTestSession(graph_, {.replicas = 3});
  Step step = *session->Prepare({}, {value}, {add});
  EXPECT_EQ(Run(*session, step, value, {add}), 6);
  EXPECT_EQ(Run(*session, step, value, {add}), 7);
  EXPECT_EQ(Run(*session, step, value, {add}), 8);
}

TEST_F(VariableStateTest, QueryWorksInsideBranchesAndLoops) {
  const auto ask = [&](const Scope& s, Args in) {
    return Outputs{ValueOrSeven(s, ops::VarIsInitializedOp(s, in[0]), in[0])};
  };
  const Output one = ops::Placeholder(root_, DT_FLOAT, {});
  const Output in_branch =
      ops::If(root_, ops::Greater(root_, one, ops::ZerosLike(root_, one)), {v_}, ask, ask)[0];
  const Outputs in_loop = ops::While(
      root_, {one, v_},
      [](const Scope& s, Args in) {
        return Outputs{ops::Less(s, in[0], ops::ScalarConst(s, DT_FLOAT, 20))};
      },
      [&](const Scope& s, Args in) {
        return Outputs{ops::AddV2(s, in[0], ask(s, in.subspan(1))[0]), in[1]};
      });
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  auto session = *CreateTestSession(graph_, {.replicas = 3});
  Step step = *session->Prepare({one}, {in_branch, in_loop[0]});
  const std::vector<Tensor> fed = {Tensor::Scalar(1.0f)};
  auto out = step.Run(fed);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].flat<float>()[0], 7);
  EXPECT_EQ((*out)[1].flat<float>()[0], 22);
  ASSERT_TRUE(session->AssignVariable("v", Tensor::Scalar(9.0f)).ok());
  out = step.Run(fed);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].flat<float>()[0], 9);
  EXPECT_EQ((*out)[1].flat<float>()[0], 28);
}

// The write is outside the branch, so the variable has a value inside.
TEST_F(VariableStateTest, QueryInBranchSeesWriteBeforeBranch) {
  const Output one = ops::Placeholder(root_, DT_FLOAT, {});
  const Operation write = ops::AssignVariableOp(root_, v_, one);
  const auto ask = [&](const Scope& s, Args in) {
    return Outputs{ops::Cast(s, ops::VarIsInitializedOp(s, in[0]), DT_FLOAT)};
  };
  const Output answer =
      ops::If(root_.WithControlDependencies({{write}}),
              ops::Greater(root_, one, ops::ZerosLike(root_, one)), {v_}, ask, ask)[0];
  auto session = *CreateTestSession(graph_, {.replicas = 3});
  Step step = *session->Prepare({one}, {answer});
  const auto out = step.Run(std::vector<Tensor>{Tensor::Scalar(1.0f)});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].flat<float>()[0], 1);
}

// The branch that replaces an If keeps the control inputs of the If.
TEST_F(VariableStateTest, BranchThatReplacesIfKeepsItsControlInputs) {
  const Operation write = ops::AssignVariableOp(root_, v_, ops::ScalarConst(root_, DT_FLOAT, 3));
  const Output value = ValueOrSeven(root_.WithControlDependencies({{write}}),
                                    ops::Const(root_, Tensor::Scalar(true)), v_);
  const Output twice = ops::AddV2(root_, value, value);
  auto session = *CreateTestSession(graph_, {.replicas = 3});
  Step step = *session->Prepare({}, {twice});
  EXPECT_EQ(Run(*session, step, twice), 6);
}

TEST_F(VariableStateTest, ReplicatedGraphOfQueryIsRejected) {
  const Output answer = AsFloat(is_set_);
  const auto replicated = ReplicatedGraph(graph_, {.fetches = {answer}, .num_replicas = 2});
  EXPECT_THAT(replicated.status(),
              IsError(absl::StatusCode::kUnimplemented, "variable 'v'", "session"));
}

}  // namespace
}  // namespace mirrorflow
