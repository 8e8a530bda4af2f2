// SPDX-License-Identifier: Apache-2.0
//
// Tests what the cases in tests/references do not cover for softmax and its cross entropy: which
// label an error names, non-finite values, and many rows.
#include "ops/softmax_xent.h"

#include <cmath>
#include <limits>

#include "framework/runtime/evaluate_node.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/all_kernels.h"
#include "ops/control.h"
#include "ops/softmax.h"
#include "tests/support/bound_kernel.h"
#include "tests/support/is_error.h"
#include "tests/support/tensors.h"

namespace mirrorflow {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

class SoftmaxXentTest : public ::testing::Test {
 protected:
  // Returns the loss and backprop.
  absl::StatusOr<std::vector<Tensor>> Entropy(const Tensor& features, const Tensor& labels,
                                              const EvaluateOptions& options = {}) {
    const Output x = ops::Placeholder(root_, features.dtype(), features.shape());
    const Output y = ops::Placeholder(root_, labels.dtype(), labels.shape());
    const Node* node = ops::SparseSoftmaxCrossEntropyWithLogits(root_, x, y).loss.node;
    return EvaluateNode(*node, {features, labels}, {labels.shape(), features.shape()}, CpuKernels(),
                        options);
  }
  absl::StatusOr<std::vector<Tensor>> Softmax(const Tensor& logits) {
    const Output x = ops::Placeholder(root_, logits.dtype(), logits.shape());
    return EvaluateNode(*ops::Softmax(root_, x).node, {logits}, {logits.shape()}, CpuKernels());
  }

  Graph graph_;
  Scope root_{&graph_};
  Random random_{1};
};

TEST_F(SoftmaxXentTest, ErrorNamesFirstLabelOutOfRange) {
  const Tensor features = RandomTensor(DT_FLOAT, {4, 3}, &random_);
  const auto out = Entropy(features, Tensor::Vector<int32_t>({0, 2, 3, -1}));
  EXPECT_THAT(out.status(),
              IsError(absl::StatusCode::kInvalidArgument, "position 2", "[0, 3)", "got 3"));
}

TEST_F(SoftmaxXentTest, ErrorCountsPositionsInGlobalBatch) {
  EvaluateOptions options;
  options.params.first_row[1] = 10;
  const std::vector<Sharding> shardings = {Sharded{/*axis=*/1, /*dim=*/0, /*factor=*/2},
                                           Sharded{/*axis=*/1, /*dim=*/0, /*factor=*/2}};
  options.output_shardings = shardings;
  const Tensor features = RandomTensor(DT_FLOAT, {4, 3}, &random_);
  const auto out = Entropy(features, Tensor::Vector<int64_t>({0, -5, 1, 1}), options);
  EXPECT_THAT(out.status(),
              IsError(absl::StatusCode::kInvalidArgument, "position 21", "[0, 3)", "got -5"));
}

TEST_F(SoftmaxXentTest, KernelIsMarkedAsFailingOnData) {
  const Tensor features = RandomTensor(DT_FLOAT, {4, 3}, &random_);
  const Tensor labels = Tensor::Vector<int32_t>({0, 1, 2, 0});
  const Output x = ops::Placeholder(root_, DT_FLOAT, {4, 3});
  const Output y = ops::Placeholder(root_, DT_INT32, {4});
  const Node* node = ops::SparseSoftmaxCrossEntropyWithLogits(root_, x, y).loss.node;
  const std::vector<Shape> shapes = {labels.shape(), features.shape()};
  const auto plan = CreateKernel(*node, {features, labels}, shapes, CpuKernels());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(plan->fails_on_data);
}

// The gates of updates, which skip steps with a non-finite loss, rely on this.
TEST_F(SoftmaxXentTest, LossOfNaNLogitIsNaN) {
  for (const int64_t classes : {1, 3, 8, 10, 64}) {
    for (int64_t at = 0; at < classes; ++at) {
      Tensor features = RandomTensor(DT_FLOAT, {2, classes}, &random_);
      features.data<float>()[at] = kNaN;
      const auto out = Entropy(features, Tensor::Vector<int32_t>({0, 0}));
      ASSERT_TRUE(out.ok()) << out.status();
      EXPECT_TRUE(std::isnan((*out)[0].data<float>()[0])) << classes << " classes, at " << at;
      EXPECT_FALSE(std::isnan((*out)[0].data<float>()[1])) << classes << " classes, at " << at;
    }
  }
}

TEST_F(SoftmaxXentTest, LogitOfMinusInfinityHasZeroProbability) {
  const auto y = Softmax(Tensor::Of<float>({1, 3}, {1, -kInf, 1}));
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].flat<float>(), ::testing::ElementsAre(0.5f, 0.0f, 0.5f));
  const auto out = Entropy(Tensor::Of<float>({1, 2}, {1, -kInf}), Tensor::Vector<int32_t>({1}));
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].data<float>()[0], kInf);
}

// For every width, the test uses more rows than fit into a block.
TEST_F(SoftmaxXentTest, MatchesDoublePrecisionForManyRowsOfAnyWidth) {
  for (const int64_t classes : {1, 2, 7, 10, 17, 100, 5000}) {
    const int64_t rows = classes == 5000 ? 5 : 600;
    Tensor in_double = RandomTensor(DT_DOUBLE, {rows, classes}, &random_);
    Tensor features = *Tensor::Allocate(DT_FLOAT, {rows, classes});
    Tensor labels = *Tensor::Allocate(DT_INT32, {rows});
    for (int64_t i = 0; i < features.num_elements(); ++i) {
      features.data<float>()[i] = static_cast<float>(in_double.data<double>()[i] * 30);
      in_double.data<double>()[i] = features.data<float>()[i];
    }
    for (int64_t r = 0; r < rows; ++r) {
      labels.data<int32_t>()[r] = static_cast<int32_t>(random_.Below(classes));
    }
    const auto want = Entropy(in_double, labels), got = Entropy(features, labels);
    ASSERT_TRUE(want.ok() && got.ok());
    for (int k = 0; k < 2; ++k) {
      for (int64_t i = 0; i < (*want)[k].num_elements(); ++i) {
        // Logits are below 30, and subtracting them has a relative rounding error of 2^-24.
        ASSERT_NEAR((*got)[k].data<float>()[i], (*want)[k].data<double>()[i], 1e-5)
            << classes << " classes, output " << k << ", element " << i;
      }
    }
  }
}

}  // namespace
}  // namespace mirrorflow
