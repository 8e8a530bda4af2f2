// SPDX-License-Identifier: Apache-2.0
//
// Random image augmentation: functions for Dataset::Map(). The random change to a row depends only
// on the seed, the pass and the row's index in the source, so it is the same on any worker and with
// any number of threads.
//
//   images.Shuffle(1).Map(augment::RandomFlip({.seed = 1})).Map(augment::RandomCrop(32, 32,
//   {.padding = 4}))
//
// Each function changes one component of a row, an image [height, width, channels] of uint8 or
// float; the option `component` is its index in the row. Two augmentations in a pipeline are
// independent of each other only if they have different seeds.
//
// Errors: reading a row fails with InvalidArgument if an argument is out of range, NaN or infinite,
// or if the component does not exist or is not an image.
#ifndef MIRRORFLOW_TRAIN_DATA_AUGMENTATION_H_
#define MIRRORFLOW_TRAIN_DATA_AUGMENTATION_H_

#include <cstdint>

#include "train/data/row.h"

namespace mirrorflow {
namespace augment {

enum class FlipMode { kHorizontal, kVertical, kHorizontalAndVertical };

struct FlipOptions {
  FlipMode mode = FlipMode::kHorizontal;
  uint64_t seed = 1;
  int component = 0;
};
// Mirrors the image with probability 1/2: left to right (kHorizontal), top to bottom (kVertical),
// or in both directions independently.
// Source: Keras' RandomFlip.
RowFunction RandomFlip(const FlipOptions& options = {});

struct CropOptions {
  int64_t padding = 0;  // width in pixels of the zero border that is added before cropping
  uint64_t seed = 2;
  int component = 0;
};
// Crops a random rectangle of this size in pixels.
// Errors: InvalidArgument if the padded image is smaller than the rectangle, or if a size is
// outside [0, 2^20].
// Source: torchvision's RandomCrop.
RowFunction RandomCrop(int64_t height, int64_t width, const CropOptions& options = {});

struct AugmentOptions {
  uint64_t seed = 3;
  int component = 0;
};
// For RandomRotation, RandomBrightness and RandomContrast, `factor` must be in [0, 1].
//
// Rotates by a random angle in [-factor, factor] * 2π radians. Pixels from outside the image are 0.
// Source: Keras' RandomRotation, with fill_mode "constant".
RowFunction RandomRotation(double factor, const AugmentOptions& options = {});
// Adds a random number in [-factor, factor], times 255 for uint8 images. Source: Keras'
// RandomBrightness.
RowFunction RandomBrightness(double factor, const AugmentOptions& options = {});
// Scales the distance from the mean of each channel by a random factor in [1 - factor, 1 + factor].
// Source: Keras' RandomContrast.
RowFunction RandomContrast(double factor, const AugmentOptions& options = {});
// Sets a square of size × size pixels, centred at a random pixel, to 0; `size` is in [0, 2^20].
// Source: DeVries and Taylor, "Improved regularization of convolutional neural networks with
// cutout", 2017.
RowFunction Cutout(int64_t size, const AugmentOptions& options = {});

struct MixUpOptions {
  double alpha = 0.2;       // above 0
  int64_t num_classes = 0;  // at least 1; must be set
  uint64_t seed = 4;
};
// Blends two examples. Maps rows {image, label, image, label} with integer labels, such as those of
// Zip({d, d.Shuffle(seed)}), to rows {image, label}: λ times the first pair plus 1 - λ times the
// second. λ is drawn from Beta(alpha, alpha). The new label is float [num_classes], with λ and 1 -
// λ at the two old labels; the new image is float.
// Errors: InvalidArgument for other rows, images of different shapes, or a label that is not in
// [0, num_classes).
// Source: Zhang et al., "mixup: beyond empirical risk minimization", 2018.
RowFunction MixUp(const MixUpOptions& options);

}  // namespace augment
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_AUGMENTATION_H_
