// SPDX-License-Identifier: Apache-2.0
//
// Tests that training with dropout gives the same bits with and without interleaved evaluations,
// and when it resumes from a checkpoint. Moving averages must be updated however gradients are
// applied.
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mirrorflow.h"

namespace mf = mirrorflow;

namespace {

constexpr int kSteps = 6;

std::string TemporaryPath(const std::string& name) { return ::testing::TempDir() + "/" + name; }

mf::Tensor Batch(int step) {
  std::vector<float> values(8 * 4);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = 0.1f * static_cast<float>((i * 7 + static_cast<size_t>(step) * 5) % 13);
  }
  return mf::Tensor::Of<float>({8, 4}, values);
}

// A program that trains a dense layer with dropout and batch normalisation. Its evaluation step
// also draws random numbers.
struct Program {
  std::unique_ptr<mf::MirroredStrategy> strategy;
  std::unique_ptr<mf::Session> session;
  mf::Step train, evaluate;

  static Program Create(bool minimize = true) {
    Program p;
    p.strategy =
        mf::MirroredStrategy::Create({.num_cpu_replicas = 2, .seed = 5, .pin_threads = false})
            .value();
    mf::Graph graph;
    mf::Scope root(&graph);
    auto mirrored = p.strategy->scope();
    const mf::Output x = mf::ops::Placeholder(root.WithName("x"), mf::DT_FLOAT, {-1, 4});
    const mf::Output hidden = mf::layers::BatchNorm(root, mf::layers::Dense(root, x, 5));
    const mf::Output y = mf::layers::Dense(root, mf::layers::Dropout(root, hidden, 0.5), 1);
    const mf::Output loss = mf::ops::Mean(root, mf::ops::Square(root, y), {0, 1});
    const mf::Momentum optimizer({.learning_rate = 0.05});
    mf::Operation train;
    if (minimize) {
      train = optimizer.Minimize(root, loss);
    } else {
      const std::vector<mf::Output> variables = mf::TrainableVariables(graph);
      train = optimizer.ApplyGradients(root, optimizer.ComputeGradients(root, loss, variables));
    }
    p.session = p.strategy->NewSession(graph).value();
    p.train = p.session->Prepare({x}, {loss}, {train}).value();
    p.evaluate = p.session->Prepare({x}, {loss}).value();  // with dropout
    return p;
  }

  void Train(int first, int last) {
    for (int i = first; i < last; ++i) ASSERT_TRUE(train.Run({Batch(i)}).ok());
  }
  std::vector<mf::Tensor> Variables() const {
    std::vector<mf::Tensor> values;
    for (const std::string& name : session->VariableNames()) {
      values.push_back(session->ReadVariable(name).value());
    }
    return values;
  }
};

void ExpectSameBits(const Program& a, const Program& b) {
  const std::vector<mf::Tensor> x = a.Variables(), y = b.Variables();
  ASSERT_EQ(x.size(), y.size());
  ASSERT_FALSE(x.empty());
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_TRUE(mf::Tensor::Identical(x[i], y[i])) << a.session->VariableNames()[i];
  }
}

TEST(ReproducibleTrainingTest, EvaluationBetweenStepsDoesNotChangeTraining) {
  Program plain = Program::Create(), evaluated = Program::Create();
  plain.Train(0, kSteps);
  for (int i = 0; i < kSteps; ++i) {
    evaluated.Train(i, i + 1);
    const float first = evaluated.evaluate.Run({Batch(i)}).value()[0].scalar<float>();
    const float second = evaluated.evaluate.Run({Batch(i)}).value()[0].scalar<float>();
    EXPECT_NE(first, second) << "each run must draw different numbers";
  }
  ExpectSameBits(plain, evaluated);
  EXPECT_EQ(evaluated.session->step(), kSteps);
}

TEST(ReproducibleTrainingTest, TrainingContinuedFromCheckpointHasTheSameBits) {
  Program whole = Program::Create(), stopped = Program::Create(), continued = Program::Create();
  whole.Train(0, kSteps);
  stopped.Train(0, kSteps / 2);
  const std::string path = TemporaryPath("stopped.safetensors");
  ASSERT_TRUE(mf::SaveVariables(*stopped.session, path).ok());
  const auto report = mf::LoadVariables(path, *continued.session);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(continued.session->step(), kSteps / 2);
  continued.Train(kSteps / 2, kSteps);
  ExpectSameBits(whole, continued);

  // This shows that the test can fail: without the step count, the results differ.
  Program restarted = Program::Create();
  ASSERT_TRUE(mf::LoadVariables(path, *restarted.session).ok());
  restarted.session->SetStep(0);
  restarted.Train(kSteps / 2, kSteps);
  EXPECT_FALSE(mf::Tensor::Identical(restarted.Variables()[0], whole.Variables()[0]));
}

TEST(ReproducibleTrainingTest, MovingAveragesFollowAppliedGradients) {
  Program minimized = Program::Create(), applied = Program::Create(/*minimize=*/false);
  minimized.Train(0, kSteps);
  applied.Train(0, kSteps);
  ExpectSameBits(minimized, applied);
}

}  // namespace
