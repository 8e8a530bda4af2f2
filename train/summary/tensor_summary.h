// SPDX-License-Identifier: Apache-2.0
//
// Summarises tensors for TensorBoard as histograms and images.
#ifndef MIRRORFLOW_TRAIN_SUMMARY_TENSOR_SUMMARY_H_
#define MIRRORFLOW_TRAIN_SUMMARY_TENSOR_SUMMARY_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/tensor.h"
#include "train/summary/event.pb.h"

namespace mirrorflow {

// Counts the finite elements of `values` in `buckets` intervals of equal width between the smallest
// and the largest element. Intervals are [lower, upper); the last one includes its upper end. If
// all elements are equal, the result has one bucket; if there are no finite elements, it has no
// bucket. Returns InvalidArgument if `buckets` is less than 1, or for a dtype whose elements are
// not real numbers.
// Source: tf.summary.histogram (TensorBoard, plugins/histogram/summary_v2.py).
absl::StatusOr<proto::HistogramProto> HistogramSummary(const Tensor& values, int buckets);

// Encodes an image as PNG. `data_format` is the order of the dimensions: `HWC`, `CHW` or `HW`. The
// channels are grey (1), grey and alpha (2), RGB (3) or RGBA (4). Elements are uint8, or
// floating-point from 0 (black) to 1; these are clipped and rounded, and NaN is black.
// Returns InvalidArgument for any other image, and for an empty image.
absl::StatusOr<proto::Summary::Image> ImageSummary(const Tensor& image,
                                                   absl::string_view data_format);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_SUMMARY_TENSOR_SUMMARY_H_
