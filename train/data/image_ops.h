// SPDX-License-Identifier: Apache-2.0
//
// Image operations on the host, for functions that are passed to Dataset::Map():
//
//   dataset.Map([](Row* row) -> absl::Status {
//     MF_ASSIGN_OR_RETURN((*row)[0], images::Resize((*row)[0], 224, 224));
//     return absl::OkStatus();
//   })
//
// An image is a tensor [height, width, channels] of uint8 or float. Results do not share the
// image's memory. Except for Rescale and Normalize, they have the image's dtype; uint8 values are
// rounded and clipped to [0, 255].
//
// Errors: InvalidArgument if the image has a different rank or dtype, if a number is NaN or
// infinite, if a height or width is outside [0, 2^20], or if an offset is outside [-2^20, 2^20].
#ifndef MIRRORFLOW_TRAIN_DATA_IMAGE_OPS_H_
#define MIRRORFLOW_TRAIN_DATA_IMAGE_OPS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/core/tensor.h"

namespace mirrorflow {
namespace images {

absl::StatusOr<Tensor> FlipLeftRight(const Tensor& image);
absl::StatusOr<Tensor> FlipUpDown(const Tensor& image);

// Returns the rectangle of this height and width whose upper left pixel is in row y and column x of
// the image. Pixels from outside the image are 0.
absl::StatusOr<Tensor> Crop(const Tensor& image, int64_t y, int64_t x, int64_t height,
                            int64_t width);

// Returns the image with all pixels inside the rectangle set to 0. The rectangle can extend beyond
// the image.
absl::StatusOr<Tensor> Erase(const Tensor& image, int64_t y, int64_t x, int64_t height,
                             int64_t width);

// Resizes by bilinear interpolation between pixel centres, without antialiasing, like
// tf.image.resize.
absl::StatusOr<Tensor> Resize(const Tensor& image, int64_t height, int64_t width);

// Rotates counter-clockwise around the centre, with bilinear interpolation. The size of the image
// remains the same. Pixels from outside the image are 0.
absl::StatusOr<Tensor> Rotate(const Tensor& image, double radians);

// Returns image + delta.
absl::StatusOr<Tensor> AdjustBrightness(const Tensor& image, double delta);

// Returns (image - mean) * factor + mean, with the mean of each channel, like
// tf.image.adjust_contrast.
absl::StatusOr<Tensor> AdjustContrast(const Tensor& image, double factor);

// Returns a float image: image * scale + offset, like Keras' Rescaling.
absl::StatusOr<Tensor> Rescale(const Tensor& image, double scale, double offset = 0);

// Returns a float image: (image * scale - mean) / deviation, with one mean and one deviation (above
// 0) per channel. For a uint8 image and a scale of 1.0 / 255, this equals torchvision's ToTensor
// followed by Normalize, except for the order of the dimensions.
absl::StatusOr<Tensor> Normalize(const Tensor& image, const std::vector<float>& mean,
                                 const std::vector<float>& deviation, double scale = 1);

}  // namespace images
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_IMAGE_OPS_H_
