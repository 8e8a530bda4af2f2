// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_SUMMARY_HISTOGRAM_SUMMARY_H_
#define MIRRORFLOW_TRAIN_SUMMARY_HISTOGRAM_SUMMARY_H_

#include "absl/status/statusor.h"
#include "framework/core/tensor.h"
#include "train/summary/event.pb.h"

namespace mirrorflow {

// Counts the finite elements of `values` in `buckets` intervals of one width from the smallest to
// the largest: [lower, upper), the last one closed. If all are equal, one bucket holds them;
// without any, there is none. InvalidArgument for buckets < 1 or a dtype that is not a real number.
// Source: tf.summary.histogram (TensorBoard, plugins/histogram/summary_v2.py).
absl::StatusOr<proto::HistogramProto> HistogramSummary(const Tensor& values, int buckets);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_SUMMARY_HISTOGRAM_SUMMARY_H_
