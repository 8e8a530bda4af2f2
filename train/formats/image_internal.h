// SPDX-License-Identifier: Apache-2.0
//
// Helpers for the decoders in image.h.
#ifndef MIRRORFLOW_TRAIN_FORMATS_IMAGE_INTERNAL_H_
#define MIRRORFLOW_TRAIN_FORMATS_IMAGE_INTERNAL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/tensor.h"
#include "train/formats/image.h"

namespace mirrorflow {
namespace internal {

absl::Status CheckImageOptions(const ImageOptions& options);
// Returns ResourceExhausted if the image has more pixels than the options allow.
absl::Status CheckPixels(int64_t height, int64_t width, const ImageOptions& options);
// Returns DataLoss with the decoding library's message.
absl::Status DamagedImage(absl::string_view format, absl::string_view message);
// Converts RGB to grey: 0.299 R + 0.587 G + 0.114 B, rounded (ITU-R BT.601).
absl::StatusOr<Tensor> ToGrey(const Tensor& rgb);

}  // namespace internal
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_FORMATS_IMAGE_INTERNAL_H_
