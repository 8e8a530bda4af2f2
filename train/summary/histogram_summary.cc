// SPDX-License-Identifier: Apache-2.0
#include "train/summary/histogram_summary.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "train/summary/tensor_values.h"

namespace mirrorflow {
namespace {

constexpr int kMostBuckets = 1 << 20;

// Sets everything but the buckets. Returns false if the elements are not real numbers.
bool SetStatistics(const Tensor& values, proto::HistogramProto* histogram) {
  double least = std::numeric_limits<double>::infinity(), most = -least;
  double count = 0, sum = 0, sum_squares = 0;
  const bool is_real = ForEachValue(values, [&](double value) {
    if (!std::isfinite(value)) return;
    least = std::min(least, value);
    most = std::max(most, value);
    ++count;
    sum += value;
    sum_squares += value * value;
  });
  if (count == 0) return is_real;
  histogram->set_min(least);
  histogram->set_max(most);
  histogram->set_num(count);
  histogram->set_sum(sum);
  histogram->set_sum_squares(sum_squares);
  return true;
}

}  // namespace

absl::StatusOr<proto::HistogramProto> HistogramSummary(const Tensor& values, int buckets) {
  if (buckets < 1 || buckets > kMostBuckets) {
    return absl::InvalidArgumentError(
        absl::StrCat("buckets must be in [1, ", kMostBuckets, "], got ", buckets));
  }
  proto::HistogramProto histogram;
  if (!SetStatistics(values, &histogram)) {
    return absl::InvalidArgumentError(
        absl::StrCat("values must be real numbers, got ", values.TypeString()));
  }
  if (histogram.num() == 0) return histogram;
  // Halves, because the range of finite numbers need not be finite.
  const double half_least = histogram.min() / 2, half_most = histogram.max() / 2;
  const double half_width = (half_most - half_least) / buckets;
  if (!(half_width > 0)) {
    histogram.add_bucket_limit(histogram.max());
    histogram.add_bucket(histogram.num());
    return histogram;
  }
  std::vector<double> counts(buckets, 0);
  ForEachValue(values, [&](double value) {
    if (!std::isfinite(value)) return;
    const double bucket = std::floor((value / 2 - half_least) / half_width);
    ++counts[static_cast<size_t>(std::min<double>(bucket, buckets - 1))];
  });
  for (int i = 1; i < buckets; ++i) {
    histogram.add_bucket_limit(2 * (half_least + i * half_width));
  }
  histogram.add_bucket_limit(histogram.max());
  for (const double count : counts) histogram.add_bucket(count);
  return histogram;
}

}  // namespace mirrorflow
