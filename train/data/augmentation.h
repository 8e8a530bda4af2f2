// SPDX-License-Identifier: Apache-2.0
//
// Random augmentation of images, for Map(). What happens to a row depends only on the seed, the
// epoch and the row: every worker, with any number of threads, makes the same picture.
//
//   images.Shuffle(1).Map(augment::RandomFlip({.seed = 1})).Map(augment::RandomCrop(32, 32,
//   {.padding = 4}))
//
// An image is a component [height, width, channels] of uint8 or float. Where two augmentations of a
// pipeline should not depend on each other, give them different seeds.
//
// A number outside its range, NaN or infinite, is an InvalidArgument error of the first row.
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
// Flips with a probability of 1/2 in each direction. Source: Keras' RandomFlip.
RowFunction RandomFlip(const FlipOptions& options = {});

struct CropOptions {
  int64_t padding = 0;  // zeros around the image before it is cropped
  uint64_t seed = 2;
  int component = 0;
};
// Cuts out a random rectangle of this size. Source: torchvision's RandomCrop.
// Errors: InvalidArgument if the padded image is smaller, or for a size above 2^20 or below 0.
RowFunction RandomCrop(int64_t height, int64_t width, const CropOptions& options = {});

struct AugmentOptions {
  uint64_t seed = 3;
  int component = 0;
};
// The factors are from 0 to 1.
//
// Rotates by a random angle in [-factor, factor] * 2π. Source: Keras' RandomRotation, with
// fill_mode "constant".
RowFunction RandomRotation(double factor, const AugmentOptions& options = {});
// Adds a random number in [-factor, factor] * 255 to uint8 images, or without the 255 to float
// ones. Source: Keras' RandomBrightness.
RowFunction RandomBrightness(double factor, const AugmentOptions& options = {});
// Scales the distance from the mean of each channel by a random factor in [1 - factor, 1 + factor].
// Source: Keras' RandomContrast.
RowFunction RandomContrast(double factor, const AugmentOptions& options = {});
// Sets a square of size × size to 0, whose centre is a random pixel. Source: DeVries and Taylor,
// "Improved regularization of convolutional neural networks with cutout", 2017.
RowFunction Cutout(int64_t size, const AugmentOptions& options = {});

struct MixUpOptions {
  double alpha = 0.2;       // above 0
  int64_t num_classes = 0;  // labels become float [num_classes]; required
  uint64_t seed = 4;
};
// Takes rows {image, label, image, label}, as Zip({d, d.Shuffle(seed)}) makes them, with integer
// labels, to {image, label}: λ times the first pair plus 1 - λ times the second, as float, with λ
// from Beta(alpha, alpha).
// Source: Zhang et al., "mixup: beyond empirical risk minimization", 2018.
RowFunction MixUp(const MixUpOptions& options);

}  // namespace augment
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_AUGMENTATION_H_
