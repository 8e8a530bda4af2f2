// SPDX-License-Identifier: Apache-2.0
//
// Decodes image files in memory, PNG and JPEG, into uint8 tensors [height, width, channels].
#ifndef MIRRORFLOW_TRAIN_FORMATS_IMAGE_H_
#define MIRRORFLOW_TRAIN_FORMATS_IMAGE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/tensor.h"

namespace mirrorflow {

struct ImageOptions {
  // 0: as in the file (1 grey, 2 grey and alpha, 3 RGB, 4 RGB and alpha; a palette is RGB, and so
  // is CMYK). 1: grey, 0.299 R + 0.587 G + 0.114 B. 3: RGB. Both of the latter leave out alpha.
  int channels = 0;
  // Decodes a JPEG file at 1/ratio of its size, rounded up, in less time: 1, 2, 4 or 8. Requires 1
  // for PNG.
  int ratio = 1;
  // A larger image, width times height of the file, is an error, detected before memory is
  // allocated.
  int64_t max_pixels = int64_t{1} << 28;
  // Leaves a photo as the sensor of the camera has it. Otherwise, it is turned as the orientation
  // in its EXIF data says, and so has the sides that ImageSize() returns.
  bool ignore_orientation = false;
};

struct ImageHeader {
  int64_t height = 0, width = 0, channels = 0;  // of the image, decoded with default options
};

// Each returns DataLoss for bytes that are not such an image, or are damaged or cut short,
// InvalidArgument for invalid options, and ResourceExhausted for an image above max_pixels. Samples
// of 16 bits keep their upper 8. The results are those of libpng, and of libjpeg-turbo with its
// accurate integer DCT and its smooth upsampling of colours, turned upright.
absl::StatusOr<Tensor> DecodePng(absl::string_view bytes, const ImageOptions& options = {});
absl::StatusOr<Tensor> DecodeJpeg(absl::string_view bytes, const ImageOptions& options = {});
// Decodes what the first bytes identify as PNG or JPEG. InvalidArgument for other formats.
absl::StatusOr<Tensor> DecodeImage(absl::string_view bytes, const ImageOptions& options = {});

// Reads the size of a PNG or JPEG image, upright, and decodes no pixels.
absl::StatusOr<ImageHeader> ImageSize(absl::string_view bytes);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_FORMATS_IMAGE_H_
