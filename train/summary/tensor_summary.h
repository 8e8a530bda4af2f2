// SPDX-License-Identifier: Apache-2.0
//
// Summaries of tensors for TensorBoard: histograms and images.
#ifndef MIRRORFLOW_TRAIN_SUMMARY_TENSOR_SUMMARY_H_
#define MIRRORFLOW_TRAIN_SUMMARY_TENSOR_SUMMARY_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/tensor.h"
#include "train/summary/event.pb.h"

namespace mirrorflow {

// Counts the finite elements of `values` in `buckets` intervals of equal width from the smallest to
// the largest: [lower, upper), the last one closed. If all are equal, one bucket holds them; if
// there are none, there is no bucket. InvalidArgument for buckets < 1 or a dtype that is not a real
// number.
// Source: tf.summary.histogram (TensorBoard, plugins/histogram/summary_v2.py).
absl::StatusOr<proto::HistogramProto> HistogramSummary(const Tensor& values, int buckets);

// Encodes an image as PNG. `data_format` names its dimensions: `HWC`, `CHW` or `HW`. The channels
// are grey (1), grey and alpha (2), RGB (3) or RGBA (4). Elements are uint8, or floating-point from
// 0 (black) to 1, which are clipped and rounded; NaN is black. InvalidArgument for any other image,
// and for an empty one.
absl::StatusOr<proto::Summary::Image> ImageSummary(const Tensor& image,
                                                   absl::string_view data_format);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_SUMMARY_TENSOR_SUMMARY_H_
