// SPDX-License-Identifier: Apache-2.0
//
// Tests that misuse of the public API gives an error that names the mistake. If the signature
// cannot return an error, the process prints a message and ends. No misuse may crash it without a
// message.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mirrorflow.h"
#include "tests/support/is_error.h"

namespace mf = mirrorflow;

namespace {

using mf::IsError;

std::unique_ptr<mf::MirroredStrategy> TwoReplicas() {
  return mf::MirroredStrategy::Create({.num_cpu_replicas = 2, .pin_threads = false}).value();
}

// Returns the error that NewSession returns for `graph`.
absl::Status Error(const mf::Graph& graph) {
  return mf::OneDeviceStrategy::Create().value()->NewSession(graph).status();
}

class ForeignOutputTest : public ::testing::Test {
 protected:
  mf::Graph graph_;
  mf::Scope root_{&graph_};
  mf::Output x_ = mf::ops::Placeholder(root_.WithName("x"), mf::DT_FLOAT, {2, 3});
  mf::Output is_on_ = mf::ops::Placeholder(root_.WithName("is_on"), mf::DT_BOOL, {});
};

TEST_F(ForeignOutputTest, CapturedInBranchIsNamedWithTheRemedy) {
  auto keep = [](const mf::Scope&, absl::Span<const mf::Output> in) {
    return std::vector<mf::Output>(in.begin(), in.end());
  };
  auto captures = [this](const mf::Scope& s, absl::Span<const mf::Output> in) {
    return std::vector<mf::Output>{mf::ops::AddV2(s, in[0], x_)};
  };
  mf::ops::If(root_, is_on_, {x_}, captures, keep);
  EXPECT_THAT(Error(graph_),
              IsError(absl::StatusCode::kInvalidArgument, "'x'", "another graph", "`inputs`"));
}

TEST_F(ForeignOutputTest, CapturedInLoopByLayerIsNamed) {
  auto once = [](const mf::Scope& s, absl::Span<const mf::Output> in) {
    return std::vector<mf::Output>{
        mf::ops::Less(s, in[0], mf::ops::ScalarConst(s, mf::DT_INT32, 1))};
  };
  auto captures = [this](const mf::Scope& s, absl::Span<const mf::Output> in) {
    mf::layers::Dense(s, x_, 4);
    return std::vector<mf::Output>(in.begin(), in.end());
  };
  mf::ops::While(root_, {mf::ops::ScalarConst(root_, mf::DT_INT32, 0)}, once, captures);
  EXPECT_THAT(Error(graph_), IsError(absl::StatusCode::kInvalidArgument, "'x'", "another graph"));
}

TEST_F(ForeignOutputTest, AsInputOfAnyBuilderIsNamed) {
  mf::Graph other;
  mf::Scope scope(&other);
  // Adds so many nodes that the id of x is also used in this graph.
  for (int i = 0; i < 5; ++i) mf::ops::ScalarConst(scope, mf::DT_FLOAT, i);
  mf::ops::MatMul(scope, x_, x_);
  EXPECT_THAT(Error(other), IsError(absl::StatusCode::kInvalidArgument, "'x'", "another graph"));
}

TEST_F(ForeignOutputTest, AsControlDependencyIsNamed) {
  mf::Graph other;
  mf::Scope scope(&other);
  mf::ops::ScalarConst(scope.WithControlDependencies({mf::Operation{x_.node}}), mf::DT_FLOAT, 1);
  EXPECT_THAT(Error(other),
              IsError(absl::StatusCode::kInvalidArgument, "control input", "'x'", "another graph"));
}

TEST_F(ForeignOutputTest, InGradientsAndUpdatesIsNamed) {
  mf::Graph other;
  mf::Scope scope(&other);
  mf::Output y = mf::ops::Placeholder(scope.WithName("y"), mf::DT_FLOAT, {});
  EXPECT_THAT(mf::Gradients(scope, {y}, {x_}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "'x'", "another"));
  mf::SGD({}).ApplyGradients(scope, std::vector<mf::GradientAndVariable>{{y, x_}});
  EXPECT_THAT(Error(other), IsError(absl::StatusCode::kInvalidArgument, "apply_gradients, pair 0",
                                    "'x'", "another graph"));
}

TEST_F(ForeignOutputTest, AsLossIsNamed) {
  mf::Graph other;
  mf::Scope scope(&other);
  mf::CreateVariable(scope, "w", {2}, mf::initializers::Zeros());
  mf::SGD({}).Minimize(scope, x_);
  EXPECT_THAT(Error(other), IsError(absl::StatusCode::kInvalidArgument, "'x'", "another graph"));
}

TEST(TensorTest, ErrorForWrongCountNamesDtypeShapeAndCounts) {
  const std::vector<float> five(5);
  EXPECT_THAT(mf::Tensor::Create<float>({2, 3}, five).status(),
              IsError(absl::StatusCode::kInvalidArgument, "float[2,3]", "expected 6", "got 5"));
  EXPECT_DEATH(mf::Tensor::Of<float>({2, 3}, five), "float\\[2,3\\].*expected 6, got 5");
  EXPECT_THAT(mf::Tensor::Create<float>({-1}, five).status(),
              IsError(absl::StatusCode::kInvalidArgument, "fully defined"));
}

TEST(TensorTest, ErrorForWrongDtypeNamesBothDtypes) {
  const mf::Tensor ints = mf::Tensor::Of<int32_t>({2}, {1, 2});
  EXPECT_THAT(ints.As<float>().status(),
              IsError(absl::StatusCode::kInvalidArgument, "float elements", "int32[2]"));
  ASSERT_TRUE(ints.As<int32_t>().ok());
  EXPECT_EQ((*ints.As<int32_t>())[1], 2);
  EXPECT_DEATH(ints.flat<float>(), "float elements.*int32\\[2\\]");
  EXPECT_DEATH(mf::Tensor().scalar<float>(), "got no value");
}

TEST(TensorTest, SeveralElementsAreNotAScalar) {
  EXPECT_DEATH(mf::Tensor::Of<float>({2}, {1, 2}).scalar<float>(), "element, got 2");
}

TEST(TensorTest, RowsAndShapesOutOfRangeAreNamed) {
  const mf::Tensor t = mf::Tensor::Of<float>({2}, {1, 2});
  EXPECT_DEATH(t.Rows(1, 3), "\\[1, 3\\).*float\\[2\\]");
  EXPECT_DEATH(t.Reshaped({3}), "2 elements.* float\\[2\\], got \\[3\\]");
}

// A fixture with a session that computes y = sum(w * x); w is a variable.
class StepTest : public ::testing::Test {
 protected:
  StepTest() : strategy_(TwoReplicas()) {
    auto mirrored = strategy_->scope();
    w_ = mf::CreateVariable(root_, "weights", {3}, mf::initializers::Ones());
    y_ = mf::ops::Sum(root_.WithName("y"), mf::ops::Mul(root_, x_, w_.value), {0, 1});
    session_ = strategy_->NewSession(graph_).value();
  }

  std::unique_ptr<mf::MirroredStrategy> strategy_;
  mf::Graph graph_;
  mf::Scope root_{&graph_};
  mf::Output x_ = mf::ops::Placeholder(root_.WithName("x"), mf::DT_FLOAT, {-1, 3});
  mf::Variable w_;
  mf::Output y_;
  std::unique_ptr<mf::Session> session_;
  const mf::Tensor batch_ = mf::Tensor::Of<float>({1, 3}, {1, 2, 3});
};

TEST_F(StepTest, RunAfterItsSessionIsDestroyedFails) {
  mf::Step step = session_->Prepare({x_}, {y_}).value();
  ASSERT_TRUE(step.Run({batch_}).ok());
  session_.reset();
  EXPECT_THAT(step.Run({batch_}).status(),
              IsError(absl::StatusCode::kFailedPrecondition, "session"));
  EXPECT_THAT(step.PerReplica(0).status(),
              IsError(absl::StatusCode::kFailedPrecondition, "step:", "session"));
  EXPECT_EQ(step.host_time(), absl::ZeroDuration());
}

TEST_F(StepTest, RunOfDefaultConstructedStepFails) {
  EXPECT_THAT(mf::Step().Run({batch_}).status(),
              IsError(absl::StatusCode::kFailedPrecondition, "not prepared"));
}

TEST_F(StepTest, KeptOutputsKeepTheirValues) {
  mf::Step step = session_->Prepare({x_}, {y_, x_}).value();
  std::vector<mf::StepOutputs> kept;
  for (const float v : {1.0f, 2.0f, 3.0f}) {
    kept.push_back(step.Run({mf::Tensor::Of<float>({1, 3}, {v, v, v})}).value());
  }
  const mf::Tensor one = kept[1][1];
  session_.reset();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(kept[i][0].scalar<float>(), 3.0f * static_cast<float>(i + 1));
    EXPECT_EQ(kept[i][1].flat<float>()[2], static_cast<float>(i + 1));
  }
  EXPECT_EQ(one.flat<float>()[0], 2);
}

TEST_F(StepTest, OutputOutOfRangeIsNamed) {
  mf::Step step = session_->Prepare({x_}, {y_}).value();
  const mf::StepOutputs out = step.Run({batch_}).value();
  EXPECT_DEATH(out[1], "StepOutputs\\[1\\].*below 1");
}

TEST_F(StepTest, InvalidFetchIsNamedByItsPosition) {
  EXPECT_THAT(session_->Prepare({x_}, {y_, mf::Output()}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "fetch 1: invalid"));
  EXPECT_THAT(session_->Prepare({mf::Output()}, {y_}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "feed 0: invalid"));
  EXPECT_THAT(session_->Prepare({x_}, {}, {mf::Operation()}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "target 0: invalid"));
}

TEST_F(StepTest, FetchBuiltAfterTheSnapshotIsNamed) {
  const mf::Output late = mf::ops::Square(root_.WithName("late"), y_);
  EXPECT_THAT(
      session_->Prepare({x_}, {late}).status(),
      IsError(absl::StatusCode::kInvalidArgument, "fetch 0 'late'", "snapshot", "NewSession"));
}

TEST_F(StepTest, FetchedHandleIsNamedWithTheRemedy) {
  EXPECT_THAT(session_->Prepare({x_}, {w_.handle}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "fetch 0 'weights'", "variable's handle",
                      "Session::ReadVariable"));
}

TEST_F(StepTest, ErrorForWrongNumberOfFeedsListsTheirNames) {
  mf::Step step = session_->Prepare({x_}, {y_}).value();
  EXPECT_THAT(step.Run({}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "expected 1 (x)", "got 0"));
}

TEST_F(StepTest, ErrorForUnknownVariableSuggestsNearestName) {
  EXPECT_THAT(session_->ReadVariable("weight").status(),
              IsError(absl::StatusCode::kNotFound, "variable 'weight'", "weights?"));
  EXPECT_THAT(session_->AssignVariable("weight", batch_),
              IsError(absl::StatusCode::kNotFound, "weights?"));
}

TEST(ScopeTest, VariableOfAnotherStrategyIsRejected) {
  const auto one = TwoReplicas(), other = TwoReplicas();
  mf::Graph graph;
  mf::Scope root(&graph);
  {
    auto mirrored = one->scope();
    mf::CreateVariable(root, "w", {2}, mf::initializers::Zeros());
  }
  EXPECT_TRUE(one->NewSession(graph).ok());
  const auto device = mf::OneDeviceStrategy::Create().value();
  for (const mf::Strategy* strategy : {static_cast<const mf::Strategy*>(other.get()),
                                       static_cast<const mf::Strategy*>(device.get())}) {
    EXPECT_THAT(strategy->NewSession(graph).status(),
                IsError(absl::StatusCode::kInvalidArgument, "VarHandleOp(w)", one->name(),
                        strategy->name()));
  }
}

TEST(ScopeTest, VariableOutsideAnyScopeIsRejected) {
  mf::Graph graph;
  mf::Scope root(&graph);
  mf::CreateVariable(root, "w", {2}, mf::initializers::Zeros());
  EXPECT_THAT(TwoReplicas()->NewSession(graph).status(),
              IsError(absl::StatusCode::kInvalidArgument, "outside", "scope"));
  EXPECT_TRUE(mf::OneDeviceStrategy::Create().value()->NewSession(graph).ok());
}

class LossTest : public ::testing::Test {
 protected:
  mf::Graph graph_;
  mf::Scope root_{&graph_};
  mf::Output x_ = mf::ops::Placeholder(root_.WithName("x"), mf::DT_FLOAT, {-1, 3});
};

TEST_F(LossTest, LabelsOfDifferentShapeAreRejectedRatherThanBroadcast) {
  const mf::Output predictions = mf::layers::Dense(root_, x_, 1);
  const mf::Output labels = mf::ops::Placeholder(root_.WithName("labels"), mf::DT_FLOAT, {-1});
  mf::losses::MeanSquaredError(root_, predictions, labels);
  EXPECT_THAT(Error(graph_), IsError(absl::StatusCode::kInvalidArgument, "mean_squared_error",
                                     "labels 'labels'", "got [?]"));
}

TEST_F(LossTest, AccuracyRejectsLabelsWithOneColumn) {
  const mf::Output logits = mf::layers::Dense(root_, x_, 4);
  const mf::Output labels = mf::ops::Placeholder(root_.WithName("labels"), mf::DT_INT32, {-1, 1});
  mf::metrics::Accuracy(root_, logits, labels);
  EXPECT_THAT(Error(graph_),
              IsError(absl::StatusCode::kInvalidArgument, "accuracy", "labels 'labels'"));
}

TEST_F(LossTest, LossWithoutVariablesIsRejected) {
  mf::SGD({}).Minimize(root_, mf::ops::Sum(root_, x_, {0, 1}));
  EXPECT_THAT(Error(graph_),
              IsError(absl::StatusCode::kInvalidArgument, "the graph", "no trainable variable"));
}

TEST_F(LossTest, LossIndependentOfVariablesIsRejected) {
  mf::layers::Dense(root_, x_, 4);
  mf::SGD({}).Minimize(root_, mf::ops::Sum(root_, x_, {0, 1}));
  EXPECT_THAT(Error(graph_), IsError(absl::StatusCode::kInvalidArgument, "none of the 2"));
}

TEST_F(LossTest, LossAfterAnOpWithoutGradientNamesTheOp) {
  const mf::Output best =
      mf::ops::ArgMax(root_.WithName("best"), mf::layers::Dense(root_, x_, 4), 1);
  const mf::Output loss = mf::ops::Sum(root_, mf::ops::Cast(root_, best, mf::DT_FLOAT), {0});
  mf::SGD({}).Minimize(root_, loss);
  EXPECT_THAT(Error(graph_),
              IsError(absl::StatusCode::kInvalidArgument, "without a gradient", "ArgMax(best)"));
}

TEST_F(LossTest, UpdateOfAValueInsteadOfAHandleIsNamed) {
  const mf::Variable w = mf::CreateVariable(root_, "w", {3}, mf::initializers::Zeros());
  mf::SGD({}).ApplyGradients(root_, std::vector<mf::GradientAndVariable>{{w.value, w.value}});
  EXPECT_THAT(Error(graph_),
              IsError(absl::StatusCode::kInvalidArgument, "variable handle", "Variable::handle"));
}

}  // namespace
