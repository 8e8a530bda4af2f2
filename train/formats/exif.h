// SPDX-License-Identifier: Apache-2.0
//
// Finds a photo's orientation, and turns the photo upright. A camera stores the pixels in sensor
// order. The EXIF data (JEITA CP-3451) specify how to turn the image upright.
#ifndef MIRRORFLOW_TRAIN_FORMATS_EXIF_H_
#define MIRRORFLOW_TRAIN_FORMATS_EXIF_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/tensor.h"

namespace mirrorflow {

// The EXIF values, 1 to 8. Each name states where the file's first row and first column are in the
// upright image.
enum class Orientation {
  kTopLeft = 1,
  kTopRight = 2,
  kBottomRight = 3,
  kBottomLeft = 4,
  kLeftTop = 5,
  kRightTop = 6,
  kRightBottom = 7,
  kLeftBottom = 8,
};

// These functions return the orientation of an image file in memory: kTopLeft for an image without
// an orientation, and for damaged EXIF data.
Orientation OrientationOfJpeg(absl::string_view bytes);
Orientation OrientationOfPng(absl::string_view bytes);

// Turns an image upright. `image` is uint8 [height, width, channels].
absl::StatusOr<Tensor> TurnUpright(const Tensor& image, Orientation orientation);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_FORMATS_EXIF_H_
