// SPDX-License-Identifier: Apache-2.0
#include "train/data/augmentation.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "train/data/image_ops.h"
#include "train/data/split_mix.h"
#include "train/numeric_options.h"

namespace mirrorflow {
namespace augment {
namespace {

// Returns the generator for one row in one pass.
SplitMix64 RandomOf(uint64_t seed, const RowId& id) {
  return SplitMix64(SplitMix64(seed, id.epoch).Next(), id.row);
}

// Returns a number that is uniform in [-limit, limit).
double Symmetric(SplitMix64& random, double limit) { return (2 * random.Uniform() - 1) * limit; }

using Change = std::function<absl::StatusOr<Tensor>(const Tensor& image, SplitMix64& random)>;

constexpr NumberRange kSide = {.min = 0, .max = 1 << 20};

// Returns a function that applies `change` to the image in component `component` of each row. If
// `valid` is an error, the function returns it for every row.
RowFunction Augmentation(absl::Status valid, uint64_t seed, int component, Change change) {
  return [valid = std::move(valid), seed, component, change = std::move(change)](
             const RowId& id, Row* row) -> absl::Status {
    MF_RETURN_IF_ERROR(valid);
    if (component < 0 || component >= std::ssize(*row)) {
      return absl::InvalidArgumentError(absl::StrCat("augmentation of component ", component,
                                                     ": no such component; expected 0 to ",
                                                     std::ssize(*row) - 1));
    }
    SplitMix64 random = RandomOf(seed, id);
    MF_ASSIGN_OR_RETURN((*row)[component], change((*row)[component], random));
    return absl::OkStatus();
  };
}

// Draws from the standard normal distribution, by the Box-Muller method (1958).
double Normal(SplitMix64& random) {
  const double radius = std::sqrt(-2 * std::log(1 - random.Uniform()));
  return radius * std::cos(2 * std::numbers::pi * random.Uniform());
}

// Draws from Gamma(shape, 1). Source: Marsaglia and Tsang, "A simple method for generating gamma
// variables", 2000.
double Gamma(double shape, SplitMix64& random) {
  if (shape < 1) {
    const double u = 1 - random.Uniform();
    return Gamma(shape + 1, random) * std::pow(u, 1 / shape);
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = Normal(random), v = std::pow(1 + c * x, 3);
    if (v <= 0) continue;
    if (std::log(1 - random.Uniform()) < x * x / 2 + d - d * v + d * std::log(v)) return d * v;
  }
}

// Returns weight * a + (1 - weight) * b, as float.
absl::StatusOr<Tensor> Mix(const Tensor& a, const Tensor& b, double weight) {
  if (a.shape() != b.shape()) {
    return absl::InvalidArgumentError(
        absl::StrCat("MixUp: expected two images of the same shape, got ", a.TypeString(), " and ",
                     b.TypeString()));
  }
  MF_ASSIGN_OR_RETURN(Tensor mixed, images::Rescale(a, weight));
  MF_ASSIGN_OR_RETURN(const Tensor other, images::Rescale(b, 1 - weight));
  std::transform(mixed.data<float>(), mixed.data<float>() + mixed.num_elements(),
                 other.data<float>(), mixed.data<float>(), std::plus<>());
  return mixed;
}

absl::StatusOr<int64_t> LabelOf(const Tensor& label, int64_t num_classes) {
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> values, IntegersOf(label));
  if (values.size() == 1 && values[0] >= 0 && values[0] < num_classes) return values[0];
  return absl::InvalidArgumentError(
      absl::StrCat("MixUp: expected a label from 0 to ", num_classes - 1, ", got ",
                   values.size() == 1 ? absl::StrCat(values[0]) : label.TypeString()));
}

}  // namespace

RowFunction RandomFlip(const FlipOptions& options) {
  const FlipMode mode = options.mode;
  return Augmentation(absl::OkStatus(), options.seed, options.component,
                      [mode](const Tensor& image, SplitMix64& random) -> absl::StatusOr<Tensor> {
                        const bool horizontal = random.Below(2) == 1 && mode != FlipMode::kVertical;
                        const bool vertical = random.Below(2) == 1 && mode != FlipMode::kHorizontal;
                        Tensor result = image;
                        if (horizontal) {
                          MF_ASSIGN_OR_RETURN(result, images::FlipLeftRight(result));
                        }
                        if (vertical) {
                          MF_ASSIGN_OR_RETURN(result, images::FlipUpDown(result));
                        }
                        return result;
                      });
}

RowFunction RandomCrop(int64_t height, int64_t width, const CropOptions& options) {
  const int64_t padding = options.padding;
  return Augmentation(
      CheckNumbers(
          "RandomCrop",
          {{"height", height, kSide}, {"width", width, kSide}, {"padding", padding, kSide}}),
      options.seed, options.component,
      [=](const Tensor& image, SplitMix64& random) -> absl::StatusOr<Tensor> {
        const bool is_image = image.has_value() && image.shape().rank() == 3;
        const int64_t free_y = is_image ? image.shape().dim(0) + 2 * padding - height : -1;
        const int64_t free_x = is_image ? image.shape().dim(1) + 2 * padding - width : -1;
        if (free_y < 0 || free_x < 0) {
          return absl::InvalidArgumentError(
              absl::StrCat("RandomCrop: expected an image of at least ", height, " x ", width,
                           " after padding by ", padding, ", got ", image.TypeString()));
        }
        const auto y = static_cast<int64_t>(random.Below(free_y + 1));
        const auto x = static_cast<int64_t>(random.Below(free_x + 1));
        return images::Crop(image, y - padding, x - padding, height, width);
      });
}

RowFunction RandomRotation(double factor, const AugmentOptions& options) {
  return Augmentation(CheckNumbers("RandomRotation", {{"factor", factor, kFraction}}), options.seed,
                      options.component, [factor](const Tensor& image, SplitMix64& random) {
                        return images::Rotate(image,
                                              Symmetric(random, factor) * 2 * std::numbers::pi);
                      });
}

RowFunction RandomBrightness(double factor, const AugmentOptions& options) {
  return Augmentation(CheckNumbers("RandomBrightness", {{"factor", factor, kFraction}}),
                      options.seed, options.component,
                      [factor](const Tensor& image, SplitMix64& random) {
                        const double range = image.dtype() == DT_UINT8 ? 255 : 1;
                        return images::AdjustBrightness(image, Symmetric(random, factor) * range);
                      });
}

RowFunction RandomContrast(double factor, const AugmentOptions& options) {
  return Augmentation(CheckNumbers("RandomContrast", {{"factor", factor, kFraction}}), options.seed,
                      options.component, [factor](const Tensor& image, SplitMix64& random) {
                        return images::AdjustContrast(image, 1 + Symmetric(random, factor));
                      });
}

RowFunction Cutout(int64_t size, const AugmentOptions& options) {
  return Augmentation(
      CheckNumbers("Cutout", {{"size", size, kSide}}), options.seed, options.component,
      [size](const Tensor& image, SplitMix64& random) -> absl::StatusOr<Tensor> {
        if (!image.has_value() || image.shape().rank() != 3 || image.num_elements() == 0) {
          return absl::InvalidArgumentError(
              absl::StrCat("Cutout: expected a non-empty image [height, width, channels], got ",
                           image.has_value() ? image.TypeString() : "no value"));
        }
        const auto y = static_cast<int64_t>(random.Below(image.shape().dim(0)));
        const auto x = static_cast<int64_t>(random.Below(image.shape().dim(1)));
        return images::Erase(image, y - size / 2, x - size / 2, size, size);
      });
}

RowFunction MixUp(const MixUpOptions& options) {
  const absl::Status valid = CheckNumbers(
      "MixUp",
      {{"alpha", options.alpha, kPositive}, {"num_classes", options.num_classes, kAtLeastOne}});
  return [options, valid](const RowId& id, Row* row) -> absl::Status {
    MF_RETURN_IF_ERROR(valid);
    if (row->size() != 4) {
      return absl::InvalidArgumentError(absl::StrCat(
          "MixUp: expected rows {image, label, image, label}, got ", row->size(), " components"));
    }
    SplitMix64 random = RandomOf(options.seed, id);
    const double a = Gamma(options.alpha, random), b = Gamma(options.alpha, random);
    const double weight = a + b > 0 ? a / (a + b) : 0.5;
    MF_ASSIGN_OR_RETURN(Tensor image, Mix((*row)[0], (*row)[2], weight));
    MF_ASSIGN_OR_RETURN(const int64_t first, LabelOf((*row)[1], options.num_classes));
    MF_ASSIGN_OR_RETURN(const int64_t second, LabelOf((*row)[3], options.num_classes));
    MF_ASSIGN_OR_RETURN(Tensor label, Tensor::Allocate(DT_FLOAT, {options.num_classes}));
    label.data<float>()[first] += static_cast<float>(weight);
    label.data<float>()[second] += static_cast<float>(1 - weight);
    *row = {std::move(image), std::move(label)};
    return absl::OkStatus();
  };
}

}  // namespace augment
}  // namespace mirrorflow
