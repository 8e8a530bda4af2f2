// SPDX-License-Identifier: Apache-2.0
//
// Batch normalisation uses the statistics of the global batch, no matter how the batch is sharded.
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/compare_with_reference.h"
#include "tests/support/tensors.h"
#include "train/optimizers/optimizers.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

// Returns a training step that uses every output of the op: it keeps moving averages, and its loss
// depends on all of y.
RandomProgram Program(bool is_training, const std::string& data_format, int64_t batch) {
  const Shape images = data_format == "NCHW" ? Shape({-1, 3, 2, 4}) : Shape({-1, 2, 4, 3});
  RandomProgram program;
  const Scope root(&program.graph);
  Random random(11);
  auto filled = [](double low) {
    return [low](const Scope& scope, const Shape& shape, DataType) {
      Random numbers(7);
      Tensor t = RandomTensor(DT_DOUBLE, shape, &numbers);
      for (double& v : t.flat<double>()) v += low;
      return ops::Const(scope, t);
    };
  };
  auto variable = [&](const char* name, const Shape& shape, double low, bool trainable) {
    return CreateVariable(root, name, shape, filled(low), DT_DOUBLE, {.trainable = trainable});
  };
  const Output x = ops::Placeholder(root.WithName("x"), DT_DOUBLE, images);
  const Variable gain = variable("gain", {1}, 2, true);
  const Variable gamma = variable("gamma", {3}, 0, true), beta = variable("beta", {3}, 0, true);
  const Variable mean = variable("mean", {3}, 0, false);
  const Variable variance = variable("variance", {3}, 2, false);
  const auto norm = ops::FusedBatchNormV3(
      root, ops::Mul(root, x, gain.value), gamma.value, beta.value, mean.value, variance.value,
      {.exponential_avg_factor = 0.25f, .data_format = data_format, .is_training = is_training});
  const Output loss = ops::Mean(root, ops::Sin(root, norm.y), {0, 1, 2, 3});
  Shape fed = images;
  fed.set_dim(0, batch);
  program.batch = batch;
  program.feeds = {x};
  program.values = {RandomTensor(DT_DOUBLE, fed, &random)};
  program.fetches = {loss, norm.y, norm.batch_mean, norm.batch_variance};
  program.targets = {GradientDescent({.learning_rate = 0.1}).Minimize(root, loss),
                     ops::AssignVariableOp(root, mean.handle, norm.batch_mean),
                     ops::AssignVariableOp(root, variance.handle, norm.batch_variance)};
  EXPECT_TRUE(root.ok()) << root.status();
  return program;
}

TEST(BatchNormTest, UsesStatisticsOfGlobalBatchForAnySplit) {
  struct Row {
    int replicas;
    std::vector<int64_t> rows;
  };
  for (const Row& row : {Row{1, {}}, {2, {}}, {2, {4, 1}}, {3, {0, 5, 0}}, {4, {}}}) {
    for (const bool is_training : {true, false}) {
      for (const char* data_format : {"NHWC", "NCHW"}) {
        ProgramSetting setting;
        setting.session.replicas = row.replicas;
        setting.rows = row.rows;
        const auto difference = CompareWithReference(Program(is_training, data_format, 5), setting);
        ASSERT_TRUE(difference.ok()) << difference.status();
        EXPECT_EQ(*difference, "") << setting.ToString() << " " << is_training << data_format;
      }
    }
  }
}

}  // namespace
}  // namespace mirrorflow
