// SPDX-License-Identifier: Apache-2.0
#include "train/metrics.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

using ::testing::HasSubstr;

TEST(RunningMeanTest, WeightsItsValues) {
  RunningMean mean;
  EXPECT_EQ(mean.value(), 0);
  mean.Add(1, 3);
  mean.Add(5);
  EXPECT_EQ(mean.value(), 2);
  mean.Reset();
  EXPECT_EQ(mean.value(), 0);
}

TEST(RunningMeanTest, EmptyBatchHasNoWeight) {
  RunningMean mean;
  mean.Add(2);
  mean.Add(std::nan(""), 0);
  EXPECT_EQ(mean.value(), 2);
}

TEST(CountCorrectTest, CountsRowsWithLargestLogitAtLabel) {
  const Tensor logits = Tensor::Of<float>({4, 3}, {1, 2, 3, 9, 2, 3, 0, 0, -1, -5, -2, -3});
  EXPECT_EQ(*CountCorrect(logits, Tensor::Vector<int32_t>({2, 0, 0, 1})), 4);
  EXPECT_EQ(*CountCorrect(logits, Tensor::Vector<int32_t>({2, 1, 1, 1})), 2) << "first of equals";
}

TEST(CountCorrectTest, RowWithNanIsWrongForAnyLabel) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor logits = Tensor::Of<float>({2, 2}, {nan, 1, 1, nan});
  EXPECT_EQ(*CountCorrect(logits, Tensor::Vector<int32_t>({0, 0})), 0);
  EXPECT_EQ(*CountCorrect(logits, Tensor::Vector<int32_t>({1, 1})), 0);
}

TEST(CountCorrectTest, LabelOutOfRangeIsReported) {
  const Tensor logits = Tensor::Of<float>({2, 2}, {0, 1, 0, 1});
  for (int32_t label : {2, -1}) {
    const auto count = CountCorrect(logits, Tensor::Vector<int32_t>({0, label}));
    EXPECT_EQ(count.status().message(),
              absl::StrCat("accuracy: label 1 is out of range; expected 0 to 1, got ", label));
  }
}

TEST(CountCorrectTest, WrongShapesAndDtypesAreRejected) {
  const Tensor logits = Tensor::Of<float>({2, 2}, {0, 1, 0, 1});
  const Tensor labels = Tensor::Vector<int32_t>({0, 1});
  EXPECT_THAT(std::string(CountCorrect(labels, labels).status().message()),
              HasSubstr("expected float[B,C] logits and int32[B] labels, got int32[2] and "));
  EXPECT_FALSE(CountCorrect(logits, logits).ok());
  EXPECT_FALSE(CountCorrect(logits, Tensor::Vector<int64_t>({0, 1})).ok());
  EXPECT_FALSE(CountCorrect(logits, Tensor::Vector<int32_t>({0})).ok());
  EXPECT_FALSE(CountCorrect(Tensor(), Tensor()).ok());
}

TEST(AccuracyTest, CoversAllBatches) {
  Accuracy accuracy;
  EXPECT_EQ(accuracy.value(), 0);
  ASSERT_TRUE(accuracy.Add(Tensor::Of<float>({1, 2}, {0, 1}), Tensor::Vector<int32_t>({1})).ok());
  ASSERT_TRUE(
      accuracy
          .Add(Tensor::Of<float>({3, 2}, {0, 1, 0, 1, 0, 1}), Tensor::Vector<int32_t>({0, 0, 0}))
          .ok());
  ASSERT_TRUE(accuracy.Add(Tensor::Of<float>({0, 2}, {}), Tensor::Vector<int32_t>({})).ok());
  EXPECT_EQ(accuracy.value(), 0.25);
}

}  // namespace
}  // namespace mirrorflow
