// SPDX-License-Identifier: Apache-2.0
//
// Metrics that are computed on the host from fetched tensors.
#ifndef MIRRORFLOW_TRAIN_METRICS_H_
#define MIRRORFLOW_TRAIN_METRICS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "framework/core/tensor.h"

namespace mirrorflow {

// An incremental weighted mean, for example of losses weighted by the rows of their batches.
class RunningMean {
 public:
  void Add(double value, double weight = 1) {
    if (weight == 0) return;  // the mean of an empty batch may be NaN
    sum_ += value * weight;
    weight_ += weight;
  }
  // 0 before the first Add().
  double value() const { return weight_ == 0 ? 0 : sum_ / weight_; }
  void Reset() { *this = RunningMean(); }

 private:
  double sum_ = 0;
  double weight_ = 0;
};

// Returns the number of rows of `logits` (float [B,C]) whose largest logit is at their label (int32
// [B]). Among equal logits the first counts, as in TensorFlow's ArgMax, and a row with a NaN is
// never correct. InvalidArgument for other shapes or dtypes, and for a label outside [0, C).
absl::StatusOr<int64_t> CountCorrect(const Tensor& logits, const Tensor& labels);

// Fraction of correct rows over all added batches.
class Accuracy {
 public:
  absl::Status Add(const Tensor& logits, const Tensor& labels);
  // 0 before the first row.
  double value() const { return rows_ == 0 ? 0 : static_cast<double>(correct_) / rows_; }
  void Reset() { *this = Accuracy(); }

 private:
  int64_t correct_ = 0;
  int64_t rows_ = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_METRICS_H_
