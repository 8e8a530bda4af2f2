// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"
#include "train/summary/tensor_summary.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

proto::HistogramProto HistogramOf(const Tensor& values, int buckets) {
  absl::StatusOr<proto::HistogramProto> histogram = HistogramSummary(values, buckets);
  EXPECT_TRUE(histogram.ok()) << histogram.status();
  return histogram.value_or(proto::HistogramProto());
}

TEST(HistogramSummaryTest, BucketsMatchTensorBoard) {
  // tensorboard.plugins.histogram.summary_v2.histogram_pb returns the same edges and counts.
  const Tensor values = Tensor::Of<float>({7}, {0, 0.5, 1, 1, 2, 3, 10});
  const proto::HistogramProto histogram = HistogramOf(values, 4);
  EXPECT_THAT(histogram.bucket_limit(), ElementsAre(2.5, 5, 7.5, 10));
  EXPECT_THAT(histogram.bucket(), ElementsAre(5, 1, 0, 1));
  EXPECT_EQ(histogram.min(), 0);
  EXPECT_EQ(histogram.max(), 10);
  EXPECT_EQ(histogram.num(), 7);
  EXPECT_EQ(histogram.sum(), 17.5);
  EXPECT_EQ(histogram.sum_squares(), 115.25);
}

TEST(HistogramSummaryTest, ElementOnAnEdgeIsInTheUpperBucket) {
  const proto::HistogramProto histogram =
      HistogramOf(Tensor::Of<int32_t>({2, 3}, {-2, -1, 0, 1, 2, 2}), 4);
  EXPECT_THAT(histogram.bucket_limit(), ElementsAre(-1, 0, 1, 2));
  EXPECT_THAT(histogram.bucket(), ElementsAre(1, 1, 1, 3));
}

TEST(HistogramSummaryTest, CountsEveryNumericDtype) {
  const Tensor half = *Tensor::Allocate(DT_HALF, {2}), bfloat = *Tensor::Allocate(DT_BFLOAT16, {2});
  reinterpret_cast<uint16_t*>(half.raw())[1] = 0x4200;    // 3
  reinterpret_cast<uint16_t*>(bfloat.raw())[1] = 0x4040;  // 3
  for (const Tensor& values : {Tensor::Of<float>({2}, {0, 3}), Tensor::Of<double>({2}, {0, 3}),
                               Tensor::Of<int32_t>({2}, {0, 3}), Tensor::Of<int64_t>({2}, {0, 3}),
                               Tensor::Of<uint8_t>({2}, {0, 3}), half, bfloat}) {
    const proto::HistogramProto histogram = HistogramOf(values, 2);
    EXPECT_THAT(histogram.bucket_limit(), ElementsAre(1.5, 3)) << values.TypeString();
    EXPECT_THAT(histogram.bucket(), ElementsAre(1, 1)) << values.TypeString();
  }
  EXPECT_THAT(HistogramOf(Tensor::Of<bool>({3}, {true, false, true}), 2).bucket(),
              ElementsAre(1, 2));
}

TEST(HistogramSummaryTest, NonFiniteElementsAreIgnored) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const proto::HistogramProto histogram =
      HistogramOf(Tensor::Of<float>({5}, {kInfinity, 1, NAN, 2, -kInfinity}), 2);
  EXPECT_THAT(histogram.bucket(), ElementsAre(1, 1));
  EXPECT_EQ(histogram.num(), 2);
  EXPECT_EQ(histogram.sum(), 3);
}

TEST(HistogramSummaryTest, EqualElementsAreInOneBucket) {
  const proto::HistogramProto histogram = HistogramOf(Tensor::Of<float>({3}, {5, 5, 5}), 30);
  EXPECT_THAT(histogram.bucket_limit(), ElementsAre(5));
  EXPECT_THAT(histogram.bucket(), ElementsAre(3));
  EXPECT_EQ(HistogramOf(Tensor::Scalar<float>(1), 30).num(), 1);
}

TEST(HistogramSummaryTest, NoFiniteElementsGiveNoBuckets) {
  for (const Tensor& values : {Tensor::Of<float>({0, 3}, {}), Tensor::Of<float>({1}, {NAN})}) {
    const proto::HistogramProto histogram = HistogramOf(values, 30);
    EXPECT_THAT(histogram.bucket(), IsEmpty());
    EXPECT_EQ(histogram.num(), 0);
    EXPECT_EQ(histogram.min(), 0);
  }
}

TEST(HistogramSummaryTest, CountsTheFullRangeOfDouble) {
  constexpr double kMax = std::numeric_limits<double>::max();
  const proto::HistogramProto histogram = HistogramOf(Tensor::Of<double>({3}, {-kMax, 0, kMax}), 2);
  EXPECT_THAT(histogram.bucket_limit(), ElementsAre(0, kMax));
  EXPECT_THAT(histogram.bucket(), ElementsAre(1, 2));
  // The range is too small to be divided into buckets.
  constexpr double kTiny = std::numeric_limits<double>::denorm_min();
  EXPECT_EQ(HistogramOf(Tensor::Of<double>({2}, {0, kTiny}), 30).bucket_size(), 1);
}

TEST(HistogramSummaryTest, ErrorsNameBadDtypeAndBucketCount) {
  const Tensor complex = *Tensor::Allocate(DT_COMPLEX64, {2});
  EXPECT_THAT(HistogramSummary(complex, 30).status(),
              IsError(absl::StatusCode::kInvalidArgument, "values", "got complex64[2]"));
  EXPECT_THAT(HistogramSummary(Tensor(), 30).status(),
              IsError(absl::StatusCode::kInvalidArgument, "values", "got no value"));
  EXPECT_THAT(HistogramSummary(Tensor::Scalar<float>(1), 0).status(),
              IsError(absl::StatusCode::kInvalidArgument, "buckets", "[1, 1048576]", "got 0"));
}

}  // namespace
}  // namespace mirrorflow
