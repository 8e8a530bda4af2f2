// SPDX-License-Identifier: Apache-2.0
//
// The orientation of a photo. A camera stores the pixels in the order of its sensor, and in EXIF
// data (JEITA CP-3451) how to turn them so that the picture is upright.
#ifndef MIRRORFLOW_TRAIN_FORMATS_EXIF_H_
#define MIRRORFLOW_TRAIN_FORMATS_EXIF_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/tensor.h"

namespace mirrorflow {

// The values of EXIF, 1 to 8. The names say where the first row and the first column of the file
// are in the upright picture.
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

// True if the file has the columns of the upright picture as its rows.
constexpr bool SwapsSides(Orientation orientation) { return orientation >= Orientation::kLeftTop; }

// Each returns kTopLeft for an image without an orientation, and for EXIF data that are damaged.
Orientation OrientationOfJpeg(absl::string_view bytes);
Orientation OrientationOfPng(absl::string_view bytes);
// Takes the contents of an EXIF segment: a TIFF header with its first directory.
Orientation OrientationOfExif(absl::string_view tiff);

// Turns an image, uint8 [height, width, channels], so that it is upright.
absl::StatusOr<Tensor> TurnUpright(const Tensor& image, Orientation orientation);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_FORMATS_EXIF_H_
