// SPDX-License-Identifier: Apache-2.0
//
// Tests variables that are synchronised on read: each replica updates its own copy, and a read
// combines the copies into the value that one device would have.
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mirrorflow_debug.h"
#include "tests/support/is_error.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

using Rows = std::vector<int64_t>;

constexpr VariableOptions kOnRead = {.synchronization = VariableSynchronization::kOnRead};

Tensor Column(std::vector<float> values) {
  const auto rows = static_cast<int64_t>(values.size());
  Tensor t = Tensor::Allocate(DT_FLOAT, Shape({rows})).value();
  std::copy(values.begin(), values.end(), t.data<float>());
  return t;
}

// A graph and a MirroredStrategy with GetParam() CPU replicas.
class OnRead : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    strategy_ = MirroredStrategy::Create({.num_cpu_replicas = GetParam()}).value();
  }
  int replicas() const { return GetParam(); }

  std::unique_ptr<MirroredStrategy> strategy_;
  Graph graph_;
  Scope root_{&graph_};
};

INSTANTIATE_TEST_SUITE_P(Replicas, OnRead, testing::Values(1, 2, 3));

TEST_P(OnRead, MetricOverUnevenAndEmptyShardsMatchesOneDevice) {
  Operation add;
  Variable total;
  const Output x = ops::Placeholder(root_, DT_FLOAT, {-1});
  {
    auto mirrored = strategy_->scope();
    total = CreateVariable(root_, "total", {}, initializers::Constant(100), DT_FLOAT, kOnRead);
    add = ops::AssignAddVariableOp(root_, total.handle, ops::Sum(root_, x, {0}));
  }
  const Output after = ops::ReadVariableOp(root_.WithControlDependencies({add}), total.handle);
  auto session = strategy_->NewSession(graph_).value();
  EXPECT_EQ(session->ReadVariable("total")->scalar<float>(), 100);
  Step update = session->Prepare({x}, {}, {add}).value();
  ASSERT_TRUE(update.Run({Column({1, 2, 4, 8})}).ok());
  ASSERT_TRUE(update.Run({Column({16})}).ok());  // only one replica has a row
  EXPECT_EQ(session->ReadVariable("total")->scalar<float>(), 131);
  Step update_and_read = session->Prepare({x}, {after, total.value}, {}).value();
  const auto out = update_and_read.Run({Column({32, 64})});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].scalar<float>(), 227);
  EXPECT_EQ((*out)[1].scalar<float>(), 131) << "expected the value before the write";
  // An assignment sets the sum, no matter what the copies held.
  ASSERT_TRUE(session->AssignVariable("total", Tensor::Scalar<float>(5)).ok());
  EXPECT_EQ(session->ReadVariable("total")->scalar<float>(), 5);
}

// The parts themselves matter, not only their sum, because each replica continues from its own
// part.
TEST_P(OnRead, PartsOfReplicasAreReadAndAssigned) {
  const Output x = ops::Placeholder(root_, DT_FLOAT, {-1});
  auto mirrored = strategy_->scope();
  const Variable total =
      CreateVariable(root_, "total", {}, initializers::Zeros(), DT_FLOAT, kOnRead);
  CreateVariable(root_, "mirrored", {}, initializers::Zeros());
  const Operation add = ops::AssignAddVariableOp(root_, total.handle, ops::Sum(root_, x, {0}));
  auto session = strategy_->NewSession(graph_).value();
  EXPECT_TRUE(session->ReadParts("total")->empty()) << "all parts are zero";
  Step update = session->Prepare({x}, {}, {add}).value();
  ASSERT_TRUE(update.Run({Column({1})}).ok());  // on replica 0
  ASSERT_EQ(session->ReadParts("total")->size(), 1u);
  ASSERT_TRUE(update.Run({Column({1, 2, 4})}).ok());
  const std::vector<VariablePart> parts = *session->ReadParts("total");
  ASSERT_EQ(parts.size(), static_cast<size_t>(replicas()));
  float sum = 0;
  for (int r = 0; r < replicas(); ++r) {
    EXPECT_EQ(parts[r].rank, r);
    EXPECT_TRUE(Tensor::Identical(parts[r].value, *session->ReadVariable("total", r)));
    sum += parts[r].value.scalar<float>();
  }
  EXPECT_EQ(sum, 8);
  // Ranks without a part get zero.
  const VariablePart last = {replicas() - 1, Tensor::Scalar<float>(7)};
  ASSERT_TRUE(session->AssignPartsFromWorker0("total", {last}).ok());
  for (int r = 0; r < replicas(); ++r) {
    EXPECT_EQ(session->ReadVariable("total", r)->scalar<float>(), r == last.rank ? 7 : 0);
  }
  EXPECT_THAT(session->ReadParts("mirrored").status(),
              IsError(absl::StatusCode::kInvalidArgument, "'mirrored'"));
  const VariablePart others[] = {{replicas(), Tensor::Scalar<float>(1)},
                                 {-1, Tensor::Scalar<float>(1)},
                                 {0, Tensor::Scalar<double>(1)}};
  for (const VariablePart& other : others) {
    EXPECT_THAT(session->AssignPartsFromWorker0("total", {other}),
                IsError(absl::StatusCode::kInvalidArgument, "'total'", "got"));
  }
}

TEST_P(OnRead, AddingNeedsNoCollectiveAndReadingNeedsOne) {
  const Output x = ops::Placeholder(root_, DT_FLOAT, {-1});
  auto mirrored = strategy_->scope();
  const Variable total =
      CreateVariable(root_, "total", {}, initializers::Zeros(), DT_FLOAT, kOnRead);
  const Operation add = ops::AssignAddVariableOp(root_, total.handle, ops::Sum(root_, x, {0}));
  const Output doubled = ops::Mul(root_, total.value, ops::ScalarConst(root_, DT_FLOAT, 2));
  auto session = strategy_->NewSession(graph_).value();
  auto collectives = [&](Step step) {
    return CompileStep(step, {Shape({6})})->program->state.collectives.size();
  };
  EXPECT_EQ(collectives(session->Prepare({x}, {}, {add}).value()), 0);
  EXPECT_EQ(collectives(session->Prepare({x}, {doubled, total.value}, {}).value()),
            replicas() > 1 ? 1 : 0);
}

TEST_P(OnRead, WriteOfReplicatedValueCountsOnce) {
  const Output x = ops::Placeholder(root_, DT_FLOAT, {-1});
  auto mirrored = strategy_->scope();
  const Variable total =
      CreateVariable(root_, "total", {}, initializers::Zeros(), DT_FLOAT, kOnRead);
  const Operation count = ops::AssignAddVariableOp(root_.WithName("count"), total.handle,
                                                   ops::ScalarConst(root_, DT_FLOAT, 1));
  const Operation largest =
      ops::AssignVariableOp(root_.WithName("largest"), total.handle, ops::Max(root_, x, {0}));
  const Operation reset = ops::AssignVariableOp(root_.WithName("reset"), total.handle,
                                                ops::ScalarConst(root_, DT_FLOAT, 0));
  auto session = strategy_->NewSession(graph_).value();
  Step step = session->Prepare({}, {}, {count}).value();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(step.Run({}).ok());
  EXPECT_EQ(session->ReadVariable("total")->scalar<float>(), 3);
  ASSERT_TRUE(session->Prepare({x}, {}, {largest}).value().Run({Column({3, 9, 4, 1})}).ok());
  EXPECT_EQ(session->ReadVariable("total")->scalar<float>(), 9);
  ASSERT_TRUE(session->Prepare({}, {}, {reset}).value().Run({}).ok());
  EXPECT_EQ(session->ReadVariable("total")->scalar<float>(), 0);
}

// Accumulates the gradients of two half batches and then applies one update. This takes one
// reduction, and gives the same weights as one step with the whole batch.
TEST_P(OnRead, GradientsAccumulateOverSteps) {
  const Output x = ops::Placeholder(root_.WithName("x"), DT_FLOAT, {-1});
  auto mirrored = strategy_->scope();
  const Variable w = CreateVariable(root_, "w", {}, initializers::Constant(2));
  const Variable sum = CreateVariable(root_, "sum", {}, initializers::Zeros(), DT_FLOAT, kOnRead);
  const Output loss = ops::Sum(root_, ops::Square(root_, ops::Mul(root_, x, w.value)), {0});
  const auto gradients = Optimizer::ComputeGradients(root_, loss, {w.handle});
  ASSERT_EQ(gradients.size(), 1);
  const Operation accumulate = ops::AssignAddVariableOp(root_, sum.handle, gradients[0].gradient);
  const Operation apply =
      GradientDescent({.learning_rate = 0.25}).ApplyGradients(root_, {{{sum.value, w.handle}}});
  const Operation reset = ops::AssignVariableOp(root_.WithControlDependencies({apply}), sum.handle,
                                                ops::ScalarConst(root_, DT_FLOAT, 0));
  auto session = strategy_->NewSession(graph_).value();
  Step accumulating = session->Prepare({x}, {}, {accumulate}).value();
  Step applying = session->Prepare({}, {}, {apply, reset}).value();
  EXPECT_EQ(CompileStep(accumulating, {Shape({4})})->program->state.collectives.size(), 0);
  ASSERT_TRUE(accumulating.Run({Column({0.5, 0.5, 0.25, 0})}).ok());
  ASSERT_TRUE(accumulating.Run({Column({0.25, 0, 0.5})}).ok());
  ASSERT_TRUE(applying.Run({}).ok());
  // dL/dw = 2 w * (the sum of squares, 0.875) = 3.5
  for (int r = 0; r < replicas(); ++r) {
    EXPECT_EQ(session->ReadVariable("w", r)->scalar<float>(), 2 - 0.25f * 3.5f);
    EXPECT_EQ(session->ReadVariable("sum", r)->scalar<float>(), 0);
  }
}

TEST_P(OnRead, OptimizerUpdateIsRejected) {
  const Output x = ops::Placeholder(root_, DT_FLOAT, {-1});
  auto mirrored = strategy_->scope();
  const Variable w = CreateVariable(root_, "w", {}, initializers::Zeros(), DT_FLOAT, kOnRead);
  const Output loss = ops::Sum(root_, ops::Mul(root_, x, w.value), {0});
  GradientDescent({}).Minimize(root_, loss, {.variables = {w.handle}});
  const auto session = strategy_->NewSession(graph_);
  EXPECT_THAT(session.status(), IsError(absl::StatusCode::kInvalidArgument, "'w'", "on read"));
}

TEST(OnReadAttributes, UnsupportedAggregationIsReported) {
  auto strategy = OneDeviceStrategy::Create().value();
  Graph graph;
  const Output handle = ops::VarHandleOp(Scope(&graph).WithName("v"), DT_FLOAT, Shape({}));
  graph.SetAttr(handle.node, "_synchronization", std::string("ON_READ"));
  graph.SetAttr(handle.node, "_aggregation", std::string("MEAN"));
  const auto session = strategy->NewSession(graph);
  EXPECT_THAT(session.status(), IsError(absl::StatusCode::kInvalidArgument, "VarHandleOp(v)",
                                        "ON_READ", "with MEAN"));
}

}  // namespace
}  // namespace mirrorflow
