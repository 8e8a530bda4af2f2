// SPDX-License-Identifier: Apache-2.0
//
// Updates that reduce their gradients give the same bits as an all-reduce followed by an update.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/runtime/variable_layout.h"
#include "framework/session/step_plans.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/is_error.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"
#include "train/optimizers/optimizers.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

// Each of three replicas updates more than one piece, and no size is a multiple of a cache line.
constexpr int64_t kIn = 173, kOut = 151;

// Two layers that are trained towards an output of 0.
struct Net {
  Graph graph;
  Output x, loss;
  Operation train;

  explicit Net(const Optimizer& optimizer, double clip_norm = 0) {
    const Scope root(&graph);
    x = ops::Placeholder(root, DT_FLOAT, {-1, kIn});
    const auto glorot = initializers::GlorotUniform();
    const Output w = CreateVariable(root, "w", {kIn, kOut}, glorot).value;
    const Output b = CreateVariable(root, "b", {kOut}, initializers::Constant(0.5)).value;
    const Output v = CreateVariable(root, "v", {kOut, 1}, glorot).value;
    const Output h = ops::Tanh(root, ops::BiasAdd(root, ops::MatMul(root, x, w), b));
    loss = ops::Mean(root, ops::Square(root, ops::MatMul(root, h, v)), {0, 1});
    train = optimizer.Minimize(root, loss, {.global_clipnorm = clip_norm});
  }
};

Tensor Filled(const Shape& shape, float value) {
  return Tensor::Of<float>(shape, std::vector<float>(shape.num_elements(), value));
}

struct Outcome {
  std::vector<Tensor> variables;  // including slots
  std::vector<float> losses;
  int updates = 0;  // collectives that reduce within an update
  int all_reduces = 0;
};

absl::StatusOr<Outcome> Train(const Net& net, TestSessionOptions options, bool reduce_in_updates,
                              int64_t rows = 11) {
  options.session.compile.disabled_passes = {"fuse_updates"};  // leaves nothing to reduce
  if (!reduce_in_updates) options.session.compile.disabled_passes.insert("reduce_in_updates");
  MF_ASSIGN_OR_RETURN(auto session, CreateTestSession(net.graph, options));
  MF_ASSIGN_OR_RETURN(Step step, session->Prepare({net.x}, {net.loss}, {net.train}));
  Random random(5);
  Outcome outcome;
  for (int i = 0; i < 3; ++i) {
    const Tensor x = RandomTensor(DT_FLOAT, Shape({rows, kIn}), &random);
    MF_ASSIGN_OR_RETURN(const StepOutputs outputs, step.Run({x}));
    outcome.losses.push_back(outputs[0].flat<float>()[0]);
  }
  MF_ASSIGN_OR_RETURN(const StepPlans plans, CompileStep(step, {Shape({rows, kIn})}));
  for (const PlannedCollective& c : plans.plans[0]->collectives) {
    outcome.updates += c.is<PlannedUpdate>();
    outcome.all_reduces += c.is<PlannedAllReduce>();
  }
  for (const VariableInfo& variable : session->layout().variables()) {
    MF_ASSIGN_OR_RETURN(const Tensor first, session->ReadVariable(variable.name, 0));
    for (int r = 1; r < options.replicas; ++r) {
      MF_ASSIGN_OR_RETURN(const Tensor other, session->ReadVariable(variable.name, r));
      EXPECT_EQ(Difference(first, other, {}), "") << variable.name << " of replica " << r;
    }
    outcome.variables.push_back(first);
  }
  return outcome;
}

void ExpectSameBits(const Outcome& want, const Outcome& got) {
  EXPECT_EQ(want.losses, got.losses);
  ASSERT_EQ(want.variables.size(), got.variables.size());
  for (size_t i = 0; i < want.variables.size(); ++i) {
    EXPECT_EQ(Difference(want.variables[i], got.variables[i], {}), "") << "variable " << i;
  }
}

TEST(ReduceInUpdatesTest, MatchesAllReduceAndUpdateBitForBit) {
  const std::vector<std::shared_ptr<Optimizer>> optimizers = {
      std::make_shared<SGD>(SGD::Options{}),
      std::make_shared<Momentum>(Momentum::Options{.use_nesterov = true}),
      std::make_shared<Adam>(Adam::Options{}),
      std::make_shared<AdamW>(AdamW::Options{}),
      std::make_shared<Adagrad>(Adagrad::Options{}),
      std::make_shared<RMSProp>(RMSProp::Options{}),
  };
  for (size_t i = 0; i < optimizers.size(); ++i) {
    const Net net(*optimizers[i]);
    for (const int replicas : {2, 3}) {
      SCOPED_TRACE(absl::StrCat("optimizer ", i, " on ", replicas));
      const auto want = Train(net, {.replicas = replicas}, false);
      ASSERT_TRUE(want.ok()) << want.status();
      EXPECT_EQ(want->updates, 0);
      for (const bool queued : {false, true}) {
        const auto got = Train(net, {.replicas = replicas, .queued = queued}, true);
        ASSERT_TRUE(got.ok()) << got.status();
        EXPECT_EQ(got->updates, 3);
        EXPECT_EQ(got->all_reduces, 1);  // the loss
        ExpectSameBits(*want, *got);
      }
    }
  }
}

TEST(ReduceInUpdatesTest, ReplicaWithoutRowsUpdatesItsPart) {
  const Net net(Momentum({.learning_rate = 0.1}));
  const auto want = Train(net, {.replicas = 3}, false, /*rows=*/2);
  const auto got = Train(net, {.replicas = 3}, true, /*rows=*/2);
  ASSERT_TRUE(want.ok()) << want.status();
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->updates, 3);
  ExpectSameBits(*want, *got);
}

TEST(ReduceInUpdatesTest, GradientWithOtherUsesIsReducedFirst) {
  const Net clipped(Momentum({.learning_rate = 0.1}), /*clip_norm=*/0.1);
  const auto want = Train(clipped, {.replicas = 3}, false);
  ASSERT_TRUE(want.ok()) << want.status();
  for (const bool queued : {false, true}) {
    const auto got = Train(clipped, {.replicas = 3, .queued = queued}, true);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_GT(got->all_reduces, 1);
    // Replicas that share one copy of the variables still divide the updates.
    EXPECT_EQ(got->updates, queued ? 0 : 3);
    ExpectSameBits(*want, *got);
  }
}

TEST(ReduceInUpdatesTest, OneReplicaReducesNothing) {
  const auto got = Train(Net(SGD({.learning_rate = 0.1})), {.replicas = 1}, true);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->updates, 0);
}

// Updates w by xᵀ · (y * w[0]), a large product of few rows, on one replica or several. That
// product is the only sum, so no other rounding depends on how many rows a replica has.
struct LargeLayer {
  static constexpr int64_t kRows = 330, kColumns = 225;
  Graph graph;
  Output x, y, open;
  Operation train;

  explicit LargeLayer(bool has_momentum = false) {
    const Scope root(&graph);
    x = ops::Placeholder(root, DT_FLOAT, {-1, kRows});
    y = ops::Placeholder(root, DT_FLOAT, {-1, kColumns});
    open = ops::Placeholder(root, DT_BOOL, {});
    const Output w = ops::VarHandleOp(root, DT_FLOAT, {kRows, kColumns}, {.shared_name = "w"});
    const Output first_row = ops::Slice(root, ops::ReadVariableOp(root, w),
                                        ops::VectorConst(root, std::vector<int64_t>{0, 0}),
                                        ops::VectorConst(root, std::vector<int64_t>{1, kColumns}));
    const Output gradient =
        ops::MatMul(root, x, ops::Mul(root, y, first_row), {.transpose_a = true});
    const Output rate = ops::ScalarConst(root, DT_FLOAT, 1e-3);
    if (!has_momentum) {
      train = ops::ResourceApplyGradientDescent(root, w, rate, gradient, {.gates = {open}});
      return;
    }
    const Output accum =
        ops::VarHandleOp(root, DT_FLOAT, {kRows, kColumns}, {.shared_name = "accum"});
    train = ops::ResourceApplyMomentum(root, w, accum, rate, gradient,
                                       ops::ScalarConst(root, DT_FLOAT, 0.9), {.gates = {open}});
  }

  absl::StatusOr<Tensor> Train(TestSessionOptions options, absl::Span<const int64_t> rows,
                               bool is_open, bool by_product) const {
    options.replicas = static_cast<int>(rows.size());
    if (!by_product) options.session.compile.disabled_passes = {"fuse_updates"};
    MF_ASSIGN_OR_RETURN(auto session, CreateTestSession(graph, options));
    MF_ASSIGN_OR_RETURN(Step step, session->Prepare({x, y, open}, {}, {train}));
    Random random(3);
    MF_RETURN_IF_ERROR(
        session->AssignVariable("w", RandomTensor(DT_FLOAT, Shape({kRows, kColumns}), &random)));
    if (session->layout().variables().size() > 1) {
      MF_RETURN_IF_ERROR(session->AssignVariable("accum", Filled(Shape({kRows, kColumns}), 0)));
    }
    const Tensor left = RandomTensor(DT_FLOAT, Shape({7, kRows}), &random);
    const Tensor right = RandomTensor(DT_FLOAT, Shape({7, kColumns}), &random);
    const std::vector<Tensor> feeds = {left, right, Tensor::Scalar<bool>(is_open)};
    const RunOptions shares{.replica_rows = rows};
    for (int i = 0; i < 2; ++i) {
      MF_RETURN_IF_ERROR(step.Run(feeds, shares).status());
    }
    MF_ASSIGN_OR_RETURN(const StepPlans plans,
                        CompileStep(step, {left.shape(), right.shape(), Shape({})}, shares));
    const auto& collectives = plans.plans[0]->collectives;
    const bool found =
        std::any_of(collectives.begin(), collectives.end(),
                    [](const PlannedCollective& c) { return c.is<PlannedProductUpdate>(); });
    EXPECT_EQ(found, by_product && rows.size() > 1);
    return session->ReadVariable("w", options.replicas - 1);
  }
};

TEST(ReduceInUpdatesTest, ReplicasDivideLargeProductOfFewRows) {
  for (const bool has_momentum : {false, true}) {
    const LargeLayer layer(has_momentum);
    const std::vector<int64_t> all = {7};
    const auto alone = layer.Train({}, all, /*is_open=*/true, true);
    ASSERT_TRUE(alone.ok()) << alone.status();
    for (const std::vector<int64_t>& rows :
         {std::vector<int64_t>{4, 3}, {0, 7}, {1, 0, 6}, {2, 2, 2, 1}}) {
      for (const bool queued : {false, true}) {
        SCOPED_TRACE(absl::StrCat(rows.size(), " replicas", queued ? ", queued" : "",
                                  has_momentum ? ", momentum" : ""));
        const auto got = layer.Train({.queued = queued}, rows, /*is_open=*/true, true);
        ASSERT_TRUE(got.ok()) << got.status();
        // The sums follow the order of the rows, no matter which replica has them.
        EXPECT_EQ(Difference(*alone, *got, {}), "");
        const auto reduced = layer.Train({.queued = queued}, rows, /*is_open=*/true, false);
        ASSERT_TRUE(reduced.ok()) << reduced.status();
        EXPECT_EQ(Difference(*reduced, *got, {.relative = 1e-4, .absolute = 1e-4}), "");
      }
    }
  }
}

TEST(ReduceInUpdatesTest, ClosedGateStopsDividedProduct) {
  const LargeLayer layer;
  const auto got = layer.Train({}, std::vector<int64_t>{4, 3}, /*is_open=*/false, true);
  ASSERT_TRUE(got.ok()) << got.status();
  Random random(3);
  EXPECT_EQ(Difference(RandomTensor(DT_FLOAT, got->shape(), &random), *got, {}), "");
}

// Updates `w`, with one read ordered before the update and one after it.
TEST(ReduceInUpdatesTest, ReadsSeeValueBeforeOrAfterUpdateAsOrdered) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root, DT_FLOAT, {-1, 300});
  const Output w = ops::VarHandleOp(root, DT_FLOAT, {300}, {.shared_name = "w"});
  const Output gradient = ops::Sum(root, x, {0});
  const Operation update =
      ops::ResourceApplyGradientDescent(root, w, ops::ScalarConst(root, DT_FLOAT, 1), gradient);
  const Output before = ops::ReadVariableOp(root, w);
  graph.AddControlEdge(before.node, update.node);
  const Output after = ops::ReadVariableOp(root.WithControlDependencies({update}), w);
  for (const bool queued : {false, true}) {
    auto session = *CreateTestSession(graph, {.replicas = 3, .queued = queued});
    ASSERT_EQ(session->AssignVariable("w", Filled(Shape({300}), 5)), absl::OkStatus());
    Step step = *session->Prepare({x}, {before, after});
    for (int i = 0; i < 20; ++i) {
      const auto got = step.Run({Filled(Shape({6, 300}), 1)});
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_EQ((*got)[0].flat<float>()[299], 5 - 6 * i);
      EXPECT_EQ((*got)[1].flat<float>()[299], 5 - 6 * (i + 1));
    }
  }
}

// An index on one replica is out of range. The step fails before any replica writes.
TEST(ReduceInUpdatesTest, FailureBeforeUpdateLeavesVariablesUnchanged) {
  Graph graph;
  const Scope root(&graph);
  const Output indices = ops::Placeholder(root, DT_INT32, {-1});
  const Output w = ops::VarHandleOp(root, DT_FLOAT, {4}, {.shared_name = "w"});
  const Output rows = ops::GatherV2(root, ops::ReadVariableOp(root, w), indices,
                                    ops::ScalarConst(root, DT_INT32, 0));
  const Output sum = ops::Sum(root, ops::Cast(root, indices, DT_FLOAT), {0});
  const Output gradient = ops::Fill(root, ops::VectorConst(root, std::vector<int64_t>{4}), sum);
  const Operation update =
      ops::ResourceApplyGradientDescent(root, w, ops::ScalarConst(root, DT_FLOAT, 1), gradient);
  auto session = *CreateTestSession(graph, {.replicas = 2});
  ASSERT_EQ(session->AssignVariable("w", Filled(Shape({4}), 1)), absl::OkStatus());
  Step step = *session->Prepare({indices}, {rows}, {update});
  const auto plans = CompileStep(step, {Shape({2})});
  ASSERT_TRUE(plans.ok()) << plans.status();
  EXPECT_TRUE(std::any_of(plans->plans[0]->collectives.begin(), plans->plans[0]->collectives.end(),
                          [](const PlannedCollective& c) { return c.is<PlannedUpdate>(); }));
  EXPECT_THAT(step.Run({Tensor::Vector<int32_t>({1, 9})}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "rank 1"));
  const auto value = session->ReadVariable("w");
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(value->flat<float>()[0], 1);
  EXPECT_TRUE(step.Run({Tensor::Vector<int32_t>({1, 2})}).ok());
}

}  // namespace
}  // namespace mirrorflow
