// SPDX-License-Identifier: Apache-2.0
//
// Tests errors, weights, and those properties of CTC for which Keras gives no reference values.
#include "train/losses/losses.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "framework/core/status.h"
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

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Output Feed(const Scope& s, const Shape& shape, DataType dtype = DT_FLOAT) {
  return ops::Placeholder(s.WithName("x"), dtype, shape);
}

absl::Status ErrorOf(const std::function<Output(const Scope&)>& build) {
  Graph graph;
  EXPECT_FALSE(build(Scope(&graph)).valid());
  return graph.status();
}

TEST(LossesTest, InvalidArgumentsAreReported) {
  EXPECT_THAT(ErrorOf([](const Scope& s) {
                return losses::Huber(s, Feed(s, {-1, 3}), Feed(s, {-1, 1}));
              }),
              IsError(kInvalid, "predictions", "got [?,1]"));
  EXPECT_THAT(ErrorOf([](const Scope& s) {
                return losses::Huber(s, Feed(s, {-1}), Feed(s, {-1}), {.delta = -1});
              }),
              IsError(kInvalid, "huber", "delta", "got -1"));
  EXPECT_THAT(ErrorOf([](const Scope& s) {
                return losses::CosineSimilarity(s, Feed(s, {-1}), Feed(s, {-1}));
              }),
              IsError(kInvalid, "at least 2", "got [?]"));
  EXPECT_THAT(ErrorOf([](const Scope& s) {
                return losses::SparseSoftmaxCrossEntropy(s, Feed(s, {-1, 4, 3}),
                                                         Feed(s, {-1, 5}, DT_INT32));
              }),
              IsError(kInvalid, "expected [?,4], got [?,5]"));
  EXPECT_THAT(ErrorOf([](const Scope& s) {
                return losses::SparseSoftmaxCrossEntropy(s, Feed(s, {-1, 4, -1}),
                                                         Feed(s, {-1, 4}, DT_INT32));
              }),
              IsError(kInvalid, "last dimension", "got [?,4,?]"));
  EXPECT_THAT(ErrorOf([](const Scope& s) {
                return losses::BinaryCrossentropy(s, Feed(s, {-1}), Feed(s, {-1}),
                                                  {.label_smoothing = 1.5});
              }),
              IsError(kInvalid, "binary_crossentropy", "label_smoothing", "got 1.5"));
  EXPECT_THAT(ErrorOf([](const Scope& s) {
                return losses::CategoricalCrossentropy(s, Feed(s, {-1, -1}), Feed(s, {-1, -1}),
                                                       {.label_smoothing = 0.1});
              }),
              IsError(kInvalid, "label_smoothing", "classes"));
  EXPECT_THAT(ErrorOf([](const Scope& s) {
                return losses::BinaryFocalCrossentropy(s, Feed(s, {-1}), Feed(s, {-1}),
                                                       {.gamma = -2});
              }),
              IsError(kInvalid, "gamma", "got -2"));
  EXPECT_THAT(ErrorOf([](const Scope& s) {
                return losses::CTC(s, Feed(s, {-1, -1, 5}), Feed(s, {-1, 3}, DT_INT32));
              }),
              IsError(kInvalid, "ctc", "got [?,?,5]", "[?,3]"));
}

TEST(LossesTest, WeightsOfWrongShapeOrTypeAreReported) {
  for (const Shape& shape : {Shape({3}), Shape({-1, 3, 2}), Shape({-1, 2}), Shape::UnknownRank()}) {
    EXPECT_THAT(ErrorOf([&](const Scope& s) {
                  return losses::MeanSquaredError(s, Feed(s, {4, 3, 2}), Feed(s, {4, 3, 2}),
                                                  {.sample_weight = Feed(s, shape)});
                }),
                IsError(kInvalid, "mean_squared_error", "sample weights", "[4,3]"));
  }
}

TEST(LossesTest, LabelOutOfRangeFailsStep) {
  Graph graph;
  const Scope root(&graph);
  const Output logits = Feed(root, {-1, 2, 3}), labels = Feed(root, {-1, 2}, DT_INT32);
  const Output entropy = losses::SparseSoftmaxCrossEntropy(root, logits, labels);
  const Output ctc = losses::CTC(root, logits, labels);
  const auto session = CreateTestSession(graph, {.replicas = 2});
  ASSERT_TRUE(session.ok()) << session.status();
  const Tensor x = Tensor::Of<float>({2, 2, 3}, std::vector<float>(12, 1));
  for (const Output& loss : {entropy, ctc}) {
    for (const int32_t bad : {-1, 3}) {
      const Tensor y = Tensor::Of<int32_t>({2, 2}, {1, 2, 1, bad});
      const auto result = (*session)->Run({{logits, x}, {labels, y}}, {loss});
      EXPECT_THAT(result.status(), IsError(kInvalid, "loss", absl::StrCat("got ", bad)));
    }
  }
}

// A weight of n has the same effect as n copies of the example in the batch, except on the divisor.
TEST(LossesTest, WeightOfTwoCountsTwice) {
  Graph graph;
  const Scope root(&graph);
  const Output x = Feed(root, {-1, 2}), y = Feed(root, {-1, 2});
  const Output weights = Feed(root, {-1}, DT_INT32);
  const auto sum = [&](Output sample_weight) {
    return losses::LogCosh(root, x, y,
                           {.sample_weight = sample_weight, .reduction = LossReduction::kSum});
  };
  const Output weighted = sum(weights), plain = sum(Output());
  const auto session = CreateTestSession(graph, {.replicas = 3});
  ASSERT_TRUE(session.ok()) << session.status();
  const auto once = (*session)->Run({{x, Tensor::Of<float>({2, 2}, {1, 2, 3, 4})},
                                     {y, Tensor::Of<float>({2, 2}, {0, 0, 1, 1})},
                                     {weights, Tensor::Vector<int32_t>({2, 1})}},
                                    {weighted});
  const auto copied = (*session)->Run({{x, Tensor::Of<float>({3, 2}, {1, 2, 1, 2, 3, 4})},
                                       {y, Tensor::Of<float>({3, 2}, {0, 0, 0, 0, 1, 1})}},
                                      {plain});
  ASSERT_TRUE(once.ok()) << once.status();
  ASSERT_TRUE(copied.ok()) << copied.status();
  EXPECT_NEAR((*once)[0].scalar<float>(), (*copied)[0].scalar<float>(), 1e-5);
}

TEST(LossesTest, SigmoidOfLargeLogitsStaysAccurate) {
  Graph graph;
  const Scope root(&graph);
  const Output x = Feed(root, {-1}), y = Feed(root, {-1});
  const Output loss = losses::BinaryCrossentropy(
      root, x, y, {.from_logits = true, .reduction = LossReduction::kNone});
  const auto gradients = Gradients(root, {loss}, {x});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  const auto session = CreateTestSession(graph, {.replicas = 1});
  ASSERT_TRUE(session.ok()) << session.status();
  const auto got = (*session)->Run(
      {{x, Tensor::Vector<float>({30, -30, 0, 1e4f})}, {y, Tensor::Vector<float>({1, 0, 1, 0})}},
      {loss, (*gradients)[0]});
  ASSERT_TRUE(got.ok()) << got.status();
  const float tail = std::exp(-30.0f);
  EXPECT_EQ(Difference(Tensor::Vector<float>({tail, tail, std::log(2.0f), 1e4f}), (*got)[0],
                       {.relative = 1e-5}),
            "");
  EXPECT_EQ(
      Difference(Tensor::Vector<float>({-tail, tail, -0.5f, 1}), (*got)[1], {.relative = 1e-5}),
      "");
}

TEST(LossesTest, CosineOfZerosHasFiniteGradient) {
  Graph graph;
  const Scope root(&graph);
  const Output x = Feed(root, {-1, 2}), y = Feed(root, {-1, 2});
  const Output loss = losses::CosineSimilarity(root, x, y);
  const auto gradients = Gradients(root, {loss}, {x});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  const auto session = CreateTestSession(graph, {});
  ASSERT_TRUE(session.ok()) << session.status();
  const auto got = (*session)->Run(
      {{x, Tensor::Of<float>({1, 2}, {0, 0})}, {y, Tensor::Of<float>({1, 2}, {1, 2})}},
      {loss, (*gradients)[0]});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ((*got)[0].scalar<float>(), 0);
  EXPECT_TRUE(AllFinite((*got)[1]));
}

// --- CTC ---------------------------------------------------------------------------------------

struct CtcResult {
  float loss = 0;
  Tensor gradient;
};

absl::StatusOr<CtcResult> Ctc(const Tensor& logits, const Tensor& labels,
                              DataType dtype = DT_FLOAT) {
  Graph graph;
  const Scope root(&graph);
  Shape x_shape = logits.shape(), y_shape = labels.shape();
  x_shape.set_dim(0, -1);
  y_shape.set_dim(0, -1);
  const Output x = Feed(root, x_shape), y = Feed(root, y_shape, DT_INT32);
  const Output loss = ops::Cast(root, losses::CTC(root, ops::Cast(root, x, dtype), y), DT_FLOAT);
  MF_RETURN_IF_ERROR(graph.status());
  MF_ASSIGN_OR_RETURN(const std::vector<Output> gradients, Gradients(root, {loss}, {x}));
  MF_ASSIGN_OR_RETURN(const auto session, CreateTestSession(graph, {.replicas = 2}));
  MF_ASSIGN_OR_RETURN(std::vector<Tensor> got,
                      session->Run({{x, logits}, {y, labels}}, {loss, gradients[0]}));
  return CtcResult{got[0].scalar<float>(), std::move(got[1])};
}

// Returns the probability of the labels by its definition, as the sum over all alignments.
double SumOverAlignments(const Tensor& logits, const std::vector<int>& labels) {
  const int time = static_cast<int>(logits.shape().dim(1));
  const int classes = static_cast<int>(logits.shape().dim(2));
  std::vector<int> path(time, 0);
  double total = 0;
  for (;;) {
    std::vector<int> collapsed;
    double probability = 1;
    for (int t = 0; t < time; ++t) {
      if (path[t] != 0 && (t == 0 || path[t] != path[t - 1])) collapsed.push_back(path[t]);
      double sum = 0;
      for (int c = 0; c < classes; ++c) sum += std::exp(logits.flat<float>()[t * classes + c]);
      probability *= std::exp(logits.flat<float>()[t * classes + path[t]]) / sum;
    }
    if (collapsed == labels) total += probability;
    int t = 0;
    while (t < time && ++path[t] == classes) path[t++] = 0;
    if (t == time) return total;
  }
}

TEST(CtcTest, SumsOverAllAlignments) {
  Random random(5);
  const Tensor logits = RandomTensor(DT_FLOAT, {1, 5, 3}, &random);
  for (const std::vector<int>& labels :
       {std::vector<int>{1}, {1, 2}, {1, 1}, {2, 2, 1}, {1, 2, 1, 2}, {}}) {
    std::vector<int32_t> padded(labels.begin(), labels.end());
    padded.resize(4);
    const auto got = Ctc(logits, Tensor::Of<int32_t>({1, 4}, padded));
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_NEAR(got->loss, -std::log(SumOverAlignments(logits, labels)), 1e-5);
  }
}

TEST(CtcTest, LabelsLongerThanTheInputHaveInfiniteLossAndNoGradient) {
  // Two equal labels take three steps: a blank must separate them.
  const auto got =
      Ctc(Tensor::Of<float>({1, 2, 3}, {1, 2, 3, 4, 5, 6}), Tensor::Of<int32_t>({1, 2}, {1, 1}));
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->loss, kInfinity);
  EXPECT_EQ(LargestFinite(got->gradient), 0);
  EXPECT_TRUE(AllFinite(got->gradient));
}

TEST(CtcTest, LowPrecisionIsSummedInFloat) {
  Random random(6);
  const Tensor logits = RandomTensor(DT_FLOAT, {3, 8, 4}, &random);
  const Tensor labels = Tensor::Of<int32_t>({3, 3}, {1, 2, 3, 3, 3, 0, 2, 0, 0});
  const auto want = Ctc(logits, labels), got = Ctc(logits, labels, DT_BFLOAT16);
  ASSERT_TRUE(want.ok()) << want.status();
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_NEAR(got->loss, want->loss, 0.01 * want->loss);
}

TEST(CtcTest, TrainingFindsTheLabels) {
  Graph graph;
  const Scope root(&graph);
  const Output y = Feed(root, {-1, 3}, DT_INT32);
  const Variable w = CreateVariable(root, "w", {1, 8, 4}, initializers::Zeros());
  const Output loss = losses::CTC(
      root, ops::Mul(root, w.value, ops::Const(root, Tensor::Of<float>({1, 1, 1}, {1}))), y);
  const Operation train = Adam({.learning_rate = 0.3}).Minimize(root, loss);
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  const auto session = CreateTestSession(graph, {.replicas = 1});
  ASSERT_TRUE(session.ok()) << session.status();
  auto step = (*session)->Prepare({y}, {loss}, {train});
  ASSERT_TRUE(step.ok()) << step.status();
  float last = 0;
  for (int i = 0; i < 60; ++i) {
    const auto out = step->Run({Tensor::Of<int32_t>({1, 3}, {2, 1, 3})});
    ASSERT_TRUE(out.ok()) << out.status();
    last = (*out)[0].scalar<float>();
  }
  EXPECT_LT(last, 0.05);
}

}  // namespace
}  // namespace mirrorflow
