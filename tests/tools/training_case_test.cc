// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/training_case.h"

#include <cmath>
#include <vector>

#include "framework/core/status.h"
#include "framework/runtime/variable_layout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/oracle/interpreter.h"
#include "tests/support/is_error.h"
#include "tests/support/test_session.h"

namespace mirrorflow {
namespace {

absl::StatusOr<std::vector<double>> Losses(const TrainingCase& training, int steps) {
  MF_ASSIGN_OR_RETURN(ReadyStep t, PrepareTraining(training));
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) {
    MF_ASSIGN_OR_RETURN(const StepOutputs out, t.step.Run(t.feeds));
    losses.push_back(out[0].scalar<float>());
  }
  return losses;
}

// Returns the losses of the interpreter, which runs the graph as written, node by node.
absl::StatusOr<std::vector<double>> ReferenceLosses(const TrainingCase& training, int steps) {
  MF_ASSIGN_OR_RETURN(const ReadyStep t, PrepareTraining(training));
  MF_ASSIGN_OR_RETURN(const TrainingGraph g, BuildTraining(*t.strategy, training.model));
  MF_ASSIGN_OR_RETURN(Interpreter reference, Interpreter::Create(g.graph, TestKernels()));
  for (const VariableInfo& variable : t.session->layout().variables()) {
    MF_ASSIGN_OR_RETURN(reference.variables()[variable.name],
                        t.session->ReadVariable(variable.name));
  }
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) {
    MF_ASSIGN_OR_RETURN(
        const std::vector<Tensor> out,
        reference.Run({{g.inputs, t.feeds[0]}, {g.labels, t.feeds[1]}}, {g.loss}, g.targets));
    losses.push_back(out[0].scalar<float>());
  }
  return losses;
}

TEST(BenchTraining, LstmLossesMatchInterpreter) {
  const auto want = ReferenceLosses({.model = "lstm", .batch_size = 4}, 3);
  const auto got = Losses({.model = "lstm", .batch_size = 4}, 3);
  ASSERT_TRUE(want.ok()) << want.status();
  ASSERT_TRUE(got.ok()) << got.status();
  for (size_t i = 0; i < want->size(); ++i) EXPECT_NEAR((*got)[i], (*want)[i], 1e-5) << i;
  EXPECT_LT(want->back(), want->front());
}

TEST(BenchTraining, LossesMatchOnOneAndTwoReplicas) {
  const auto one = Losses({.model = "lstm", .batch_size = 4}, 5);
  const auto two = Losses({.model = "lstm", .batch_size = 2, .replicas = 2}, 5);
  ASSERT_TRUE(one.ok()) << one.status();
  ASSERT_TRUE(two.ok()) << two.status();
  for (size_t i = 0; i < one->size(); ++i) EXPECT_NEAR((*one)[i], (*two)[i], 1e-5) << i;
}

TEST(BenchTraining, ChainComputesThousandSines) {
  const auto got = Losses({.model = "chain", .batch_size = 1}, 1);
  ASSERT_TRUE(got.ok()) << got.status();
  const auto t = PrepareTraining({.model = "chain", .batch_size = 1});
  ASSERT_TRUE(t.ok()) << t.status();
  double want = t->feeds[0].scalar<float>();
  for (int i = 0; i < 1000; ++i) want = std::sin(want);
  EXPECT_NEAR((*got)[0], want, 1e-5);
}

TEST(BenchTraining, TransformerReducesItsLoss) {
  const auto losses =
      Losses({.model = "transformer", .batch_size = 1, .replicas = 1, .optimizer = "adam"}, 2);
  ASSERT_TRUE(losses.ok()) << losses.status();
  EXPECT_NEAR(losses->front(), std::log(8192), 0.2);
  EXPECT_LT(losses->back(), losses->front());
}

// Most of these models are too large to train in a test.
TEST(BenchTraining, BuildsLargeModels) {
  const auto strategy = OneDeviceStrategy::Create();
  ASSERT_TRUE(strategy.ok()) << strategy.status();
  const struct {
    const char* model;
    Shape inputs, labels;
    int64_t parameters;
  } kModels[] = {
      {"transformer", {2, 256}, {2, 256}, 5322240},
      {"gpt2", {2, 1024}, {2, 1024}, 124475904},
      {"resnet50", {2, 224, 224, 3}, {2}, 25557032},
      {"resnet50_64", {2, 64, 64, 3}, {2}, 25557032},
  };
  for (const auto& want : kModels) {
    const auto t = BuildTraining(**strategy, want.model);
    ASSERT_TRUE(t.ok()) << want.model << ": " << t.status();
    EXPECT_EQ(t->graph.values().shape(t->loss), Shape({})) << want.model;
    EXPECT_EQ(t->targets.size(), 1) << want.model;
    int64_t parameters = 0;
    for (const Output& variable : TrainableVariables(t->graph)) {
      parameters += variable.node->attr<Shape>("shape").num_elements();
    }
    EXPECT_EQ(parameters, want.parameters) << want.model;
    const auto batch = NoiseBatch(*t, 2);
    ASSERT_TRUE(batch.ok()) << want.model << ": " << batch.status();
    EXPECT_EQ((*batch)[0].shape(), want.inputs) << want.model;
    EXPECT_EQ((*batch)[1].shape(), want.labels) << want.model;
    for (const int32_t label : (*batch)[1].flat<int32_t>()) {
      ASSERT_GE(label, 0) << want.model;
      ASSERT_LT(label, t->classes) << want.model;
    }
  }
}

TEST(BenchTraining, UnknownModelErrorListsModels) {
  const auto strategy = OneDeviceStrategy::Create();
  ASSERT_TRUE(strategy.ok()) << strategy.status();
  const absl::Status status = BuildTraining(**strategy, "gru").status();
  EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "lstm, chain, got 'gru'"));
}

}  // namespace
}  // namespace mirrorflow
