// SPDX-License-Identifier: Apache-2.0
//
// Metrics computed on the host, from fetched tensors.
#ifndef MIRRORFLOW_TRAIN_METRICS_H_
#define MIRRORFLOW_TRAIN_METRICS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "framework/core/tensor.h"

namespace mirrorflow {

// A weighted mean that grows: of losses, each weighted by its batch's rows, for instance.
class RunningMean {
 public:
  void Add(double value, double weight = 1) {
    if (weight == 0) return;  // the mean of an empty batch may be NaN
    sum_ += value * weight;
    weight_ += weight;
  }
  // 0 while nothing was added.
  double value() const { return weight_ == 0 ? 0 : sum_ / weight_; }
  void Reset() { *this = RunningMean(); }

 private:
  double sum_ = 0;
  double weight_ = 0;
};

// How many rows of `logits` (float [B,C]) are largest at their label (int32 [B]); of equal logits
// the first counts, as in TensorFlow's ArgMax, and a row with a NaN is never right.
// InvalidArgument for other shapes or dtypes, and for a label outside 0 … C - 1.
absl::StatusOr<int64_t> CountCorrect(const Tensor& logits, const Tensor& labels);

// The share of correct rows, over all batches added.
class Accuracy {
 public:
  absl::Status Add(const Tensor& logits, const Tensor& labels);
  // 0 while no row was added.
  double value() const { return rows_ == 0 ? 0 : static_cast<double>(correct_) / rows_; }
  void Reset() { *this = Accuracy(); }

 private:
  int64_t correct_ = 0;
  int64_t rows_ = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_METRICS_H_
