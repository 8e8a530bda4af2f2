// SPDX-License-Identifier: Apache-2.0
#include "train/regularizers.h"

#include <cmath>
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
#include "train/layers/layers.h"
#include "train/optimizers/optimizers.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

// Returns the penalty on a variable, and the penalty's gradient. The penalty is the whole loss of a
// batch of 7 rows.
absl::StatusOr<std::vector<Tensor>> Penalty(const Regularizer& regularizer, const Tensor& value,
                                            int replicas = 1) {
  Graph graph;
  const Scope root(&graph);
  const auto initial = [&](const Scope& s, const Shape&, DataType) { return ops::Const(s, value); };
  const Variable v = CreateVariable(root, "v", value.shape(), initial);
  const Output x = ops::Placeholder(root, DT_FLOAT, {kUnknownDim});
  const Output loss = ops::AddV2(root, regularizer(root, v.value), ops::Mean(root, x, {0}));
  MF_RETURN_IF_ERROR(graph.status());
  MF_ASSIGN_OR_RETURN(const std::vector<Output> gradients, Gradients(root, {loss}, {v.handle}));
  MF_ASSIGN_OR_RETURN(const auto session, CreateTestSession(graph, {.replicas = replicas}));
  return session->Run({{x, Tensor::Vector<float>({0, 0, 0, 0, 0, 0, 0})}}, {loss, gradients[0]});
}

void Expect(const Regularizer& regularizer, const Tensor& value, float penalty,
            const Tensor& gradient) {
  for (const int replicas : {1, 3}) {
    const auto got = Penalty(regularizer, value, replicas);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_NEAR((*got)[0].scalar<float>(), penalty, 1e-6 * penalty) << replicas << " replicas";
    EXPECT_EQ(Difference(gradient, (*got)[1], {.relative = 1e-5, .absolute = 1e-7}), "");
  }
}

// Expected values from Keras.
TEST(RegularizersTest, PenaltiesMatchKeras) {
  const Tensor x = Tensor::Of<float>({2, 2}, {1, -2, 3, 0.5});
  Expect(regularizers::L1(), x, 0.065f, Tensor::Of<float>({2, 2}, {0.01f, -0.01f, 0.01f, 0.01f}));
  Expect(regularizers::L2(), x, 0.1425f, Tensor::Of<float>({2, 2}, {0.02f, -0.04f, 0.06f, 0.01f}));
  Expect(regularizers::L1L2({.l1 = 0.1, .l2 = 0.2}), x, 3.5f,
         Tensor::Of<float>({2, 2}, {0.5f, -0.9f, 1.3f, 0.3f}));
  Expect(regularizers::L1L2({.l2 = 0.2}), x, 2.85f,
         Tensor::Of<float>({2, 2}, {0.4f, -0.8f, 1.2f, 0.2f}));
  const Tensor y = Tensor::Of<float>({3, 3}, {1, -2, 0.5, 3, 0.5, 1, 0, 1, 1});
  Expect(regularizers::OrthogonalRegularizer(), y, 0.0037833455f,
         Tensor::Of<float>(
             {3, 3}, {0.0008529049f, 0.0002190935f, -0.0008294359f, -0.0002013023f, -0.0002818709f,
                      0.0007448426f, 0.0011799417f, 0.0011018089f, -0.0011018086f}));
  Expect(
      regularizers::OrthogonalRegularizer({.factor = 0.5, .columns = true}), y, 0.158725f,
      Tensor::Of<float>({3, 3}, {0.05012472f, 0.01486235f, -0.09456573f, -0.01670824f, -0.02391821f,
                                 0.06422283f, 0.01213424f, 0.04168381f, -0.01694f}));
}

TEST(RegularizersTest, OrthogonalRowsHaveNoPenalty) {
  const auto got = Penalty(regularizers::OrthogonalRegularizer(),
                           Tensor::Of<float>({3, 3}, {2, 0, 0, 0, 0, 5, 0, 0, 0}));
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ((*got)[0].scalar<float>(), 0);
  EXPECT_TRUE(AllFinite((*got)[1]));
}

TEST(RegularizersTest, InvalidArgumentsAreReported) {
  const auto error = [](const Regularizer& regularizer, const Shape& shape) {
    Graph graph;
    const Scope root(&graph);
    EXPECT_FALSE(regularizer(root, ops::Placeholder(root, DT_FLOAT, shape)).valid());
    return graph.status();
  };
  EXPECT_THAT(error(regularizers::L1(-1), {2}), IsError(kInvalid, "L1:", "l1:", "got -1"));
  EXPECT_THAT(error(regularizers::L2(std::numeric_limits<double>::infinity()), {2}),
              IsError(kInvalid, "L2:", "l2:", "got inf"));
  EXPECT_THAT(error(regularizers::OrthogonalRegularizer(), {2, 2, 2}),
              IsError(kInvalid, "two rows", "got shape [2,2,2]"));
  EXPECT_THAT(error(regularizers::OrthogonalRegularizer({.columns = true}), {2, 1}),
              IsError(kInvalid, "two columns", "got shape [2,1]"));
}

TEST(RegularizationLossTest, PenalisesKernelsButNotBiases) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root, DT_FLOAT, {-1, 3});
  const Output y = layers::Dense(root, layers::Dense(root, x, 4), 2);
  const std::vector<Output> kernels = TrainableVariablesNamed(graph, "kernel");
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].node->name(), "dense/kernel");
  EXPECT_EQ(TrainableVariablesNamed(graph, "bias").size(), 2u);
  const Output penalty = RegularizationLoss(root, regularizers::L2(0.5));
  const Output first = RegularizationLoss(root, regularizers::L2(0.5), {.variables = {kernels[0]}});
  // The predictions do not affect this loss, so only the penalty changes variables.
  const Output loss =
      ops::AddV2(root, penalty,
                 ops::Sum(root, ops::Mul(root, y, ops::ScalarConst(root, DT_FLOAT, 0)), {0, 1}));
  const Operation train = SGD({.learning_rate = 0.25}).Minimize(root, loss);
  for (const int replicas : {1, 3}) {
    const auto session = CreateTestSession(graph, {.replicas = replicas});
    ASSERT_TRUE(session.ok()) << session.status();
    const auto square_sum = [&](const char* name) {
      const Tensor value = *(*session)->ReadVariable(name);
      double sum = 0;
      for (const float v : value.flat<float>()) sum += v * v;
      return sum;
    };
    const double before = square_sum("dense/kernel"), other = square_sum("dense_1/kernel");
    const auto got = (*session)->Run({}, {penalty, first});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_NEAR((*got)[0].scalar<float>(), 0.5 * (before + other), 1e-5);
    EXPECT_NEAR((*got)[1].scalar<float>(), 0.5 * before, 1e-5);
    const Tensor rows = Tensor::Of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
    const absl::Status status = (*session)->Run({{x, rows}}, {}, {train}).status();
    ASSERT_TRUE(status.ok()) << status;
    // The gradient of w² / 2 is w, so the step subtracts a quarter of w on any number of replicas.
    EXPECT_NEAR(square_sum("dense/kernel"), 0.75 * 0.75 * before, 1e-5);
  }
}

TEST(RegularizationLossTest, GraphWithoutKernelsIsReported) {
  Graph graph;
  const Scope root(&graph);
  CreateVariable(root, "w", {2}, initializers::Zeros());
  EXPECT_FALSE(RegularizationLoss(root, regularizers::L2()).valid());
  EXPECT_THAT(graph.status(), IsError(kInvalid, "the graph", "named 'kernel'"));
}

}  // namespace
}  // namespace mirrorflow
