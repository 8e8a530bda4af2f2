// SPDX-License-Identifier: Apache-2.0
//
// Random image augmentation, for Dataset::Map(). The change to a row depends only on the seed, the
// epoch and the row's index, so it does not depend on the worker or the number of threads.
//
//   images.Shuffle(1).Map(augment::RandomFlip({.seed = 1})).Map(augment::RandomCrop(32, 32,
//   {.padding = 4}))
//
// An image is a component [height, width, channels] of uint8 or float. Two augmentations of a
// pipeline are independent of each other only if they have different seeds.
//
// If an argument is out of range, NaN or infinite, reading the first row fails with
// InvalidArgument.
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
// Flips with probability 1/2 in each direction. Source: Keras' RandomFlip.
RowFunction RandomFlip(const FlipOptions& options = {});

struct CropOptions {
  int64_t padding = 0;  // width of the zero border that is added before cropping
  uint64_t seed = 2;
  int component = 0;
};
// Crops a random rectangle of this size. Source: torchvision's RandomCrop.
// Errors: InvalidArgument if the padded image is smaller than the rectangle, or if a size is above
// 2^20 or below 0.
RowFunction RandomCrop(int64_t height, int64_t width, const CropOptions& options = {});

struct AugmentOptions {
  uint64_t seed = 3;
  int component = 0;
};
// For the three functions below, `factor` must be in [0, 1].
//
// Rotates by a random angle in [-factor, factor] * 2π. Source: Keras' RandomRotation, with
// fill_mode "constant".
RowFunction RandomRotation(double factor, const AugmentOptions& options = {});
// Adds a random number in [-factor, factor], times 255 for uint8 images. Source: Keras'
// RandomBrightness.
RowFunction RandomBrightness(double factor, const AugmentOptions& options = {});
// Scales the distance from the mean of each channel by a random factor in [1 - factor, 1 + factor].
// Source: Keras' RandomContrast.
RowFunction RandomContrast(double factor, const AugmentOptions& options = {});
// Sets a square of size × size, centred at a random pixel, to 0. Source: DeVries and Taylor,
// "Improved regularization of convolutional neural networks with cutout", 2017.
RowFunction Cutout(int64_t size, const AugmentOptions& options = {});

struct MixUpOptions {
  double alpha = 0.2;       // above 0
  int64_t num_classes = 0;  // labels become float [num_classes]; required
  uint64_t seed = 4;
};
// Blends two examples. Maps rows {image, label, image, label} with integer labels, such as those of
// Zip({d, d.Shuffle(seed)}), to float rows {image, label}: λ times the first pair plus 1 - λ times
// the second. λ is drawn from Beta(alpha, alpha).
// Source: Zhang et al., "mixup: beyond empirical risk minimization", 2018.
RowFunction MixUp(const MixUpOptions& options);

}  // namespace augment
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_AUGMENTATION_H_
