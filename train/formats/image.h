// SPDX-License-Identifier: Apache-2.0
//
// Decodes PNG and JPEG files in memory into uint8 tensors [height, width, channels].
#ifndef MIRRORFLOW_TRAIN_FORMATS_IMAGE_H_
#define MIRRORFLOW_TRAIN_FORMATS_IMAGE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/tensor.h"

namespace mirrorflow {

struct ImageOptions {
  // The number of channels to return. 0: as in the file (1 for grey, 2 for grey and alpha, 3 for
  // RGB, 4 for RGB and alpha; palettes and CMYK become RGB). 1: grey, 0.299 R + 0.587 G + 0.114 B.
  // 3: RGB. With 1 and 3, alpha is dropped.
  int channels = 0;
  // The height and width of a JPEG file are divided by this number, and rounded up, which makes
  // decoding faster: 1, 2, 4 or 8. Must be 1 for PNG.
  int ratio = 1;
  // An image with more pixels (width times height in the file) is an error, detected before memory
  // is allocated.
  int64_t max_pixels = int64_t{1} << 28;
  // If false, a photo is turned upright according to its EXIF data. If true, its pixels keep the
  // file's order.
  bool ignore_orientation = false;
};

// These functions decode an image file in memory. They return DataLoss for bytes that are not such
// an image, or are damaged or truncated; InvalidArgument for invalid options; and ResourceExhausted
// for an image with more than max_pixels pixels. 16-bit samples are reduced to their upper 8 bits.
// The pixels are those of libpng, and of libjpeg-turbo with its accurate integer DCT and smooth
// chroma upsampling, turned upright.
absl::StatusOr<Tensor> DecodePng(absl::string_view bytes, const ImageOptions& options = {});
absl::StatusOr<Tensor> DecodeJpeg(absl::string_view bytes, const ImageOptions& options = {});
// Decodes an image that its first bytes identify as PNG or JPEG. Returns InvalidArgument for other
// formats.
absl::StatusOr<Tensor> DecodeImage(absl::string_view bytes, const ImageOptions& options = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_FORMATS_IMAGE_H_
