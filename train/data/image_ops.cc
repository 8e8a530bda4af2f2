// SPDX-License-Identifier: Apache-2.0
#include "train/data/image_ops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "framework/core/buffer.h"
#include "framework/core/status.h"
#include "train/numeric_options.h"

namespace mirrorflow {
namespace images {
namespace {

constexpr int64_t kMaxSide = 1 << 20;

absl::Status CheckImage(const Tensor& image) {
  if ((image.dtype() == DT_UINT8 || image.dtype() == DT_FLOAT) && image.shape().rank() == 3) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("image: expected uint8 or float [height, width, channels], got ",
                   image.has_value() ? image.TypeString() : "no value"));
}

absl::Status CheckSides(int64_t height, int64_t width) {
  if (height >= 0 && width >= 0 && height <= kMaxSide && width <= kMaxSide) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("image: expected a height and a width of 0 to ",
                                                 kMaxSide, ", got ", height, " and ", width));
}

absl::Status CheckOffset(int64_t y, int64_t x) {
  if (std::max(y, x) <= kMaxSide && std::min(y, x) >= -kMaxSide) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("image: expected offsets of magnitude at most ",
                                                 kMaxSide, ", got ", y, " and ", x));
}

template <typename T>
T FromDouble(double value) {
  if constexpr (std::is_same_v<T, uint8_t>) {
    return static_cast<uint8_t>(std::clamp(std::nearbyint(value), 0.0, 255.0));
  } else {
    return static_cast<T>(value);
  }
}

// Accesses the pixels of an existing or new image.
template <typename T>
struct Pixels {
  explicit Pixels(const Tensor& t)
      : height(t.shape().dim(0)),
        width(t.shape().dim(1)),
        channels(t.shape().dim(2)),
        data(t.data<T>()) {}

  T* at(int64_t y, int64_t x) const { return data + (y * width + x) * channels; }
  bool contains(int64_t y, int64_t x) const { return y >= 0 && y < height && x >= 0 && x < width; }
  int64_t size() const { return height * width * channels; }

  int64_t height, width, channels;
  T* data;
};

// Returns an image with unspecified values. It must be at most four times as large as an existing
// image. Each thread reuses the memory of its last images once they are released, because
// allocating fresh memory can cost more than the image operation.
absl::StatusOr<Tensor> NewImage(DataType dtype, const Shape& shape) {
  constexpr size_t kKept = 4;
  thread_local std::array<std::shared_ptr<Buffer>, kKept> kept;
  thread_local size_t next = 0;
  const size_t bytes = shape.num_elements() * DataTypeSize(dtype);
  for (const std::shared_ptr<Buffer>& buffer : kept) {
    // A use count of 1 cannot grow concurrently; see BufferPool.
    if (buffer == nullptr || buffer.use_count() != 1) continue;
    if (buffer->size() < bytes || buffer->size() / 2 > bytes) continue;
    return Tensor::View(dtype, shape, buffer->data(), buffer);
  }
  std::shared_ptr<Buffer>& place = kept[next++ % kKept];
  MF_ASSIGN_OR_RETURN(place, Buffer::Allocate(bytes));
  return Tensor::View(dtype, shape, place->data(), place);
}

// Calls use(Pixels<T>(image)) with T = uint8_t or float.
template <typename Use>
void WithPixels(const Tensor& image, Use use) {
  if (image.dtype() == DT_UINT8) {
    use(Pixels<uint8_t>(image));
  } else {
    use(Pixels<float>(image));
  }
}

// Creates an image of this height and width, with the dtype and channels of `image`, and calls
// fill(from, to) with both images as Pixels<T>. If `fills_all` is set, `fill` must set every value,
// and the result must not be larger than `image`; otherwise, all values are 0 before the call.
template <typename Fill>
absl::StatusOr<Tensor> Make(const Tensor& image, int64_t height, int64_t width, Fill fill,
                            bool fills_all = false) {
  MF_RETURN_IF_ERROR(CheckImage(image));
  MF_RETURN_IF_ERROR(CheckSides(height, width));
  const Shape shape({height, width, image.shape().dim(2)});
  MF_ASSIGN_OR_RETURN(Tensor made, fills_all ? NewImage(image.dtype(), shape)
                                             : Tensor::Allocate(image.dtype(), shape));
  WithPixels(image, [&](auto from) { fill(from, decltype(from)(made)); });
  return made;
}

template <typename Fill>
absl::StatusOr<Tensor> MakeOfSameSize(const Tensor& image, Fill fill) {
  MF_RETURN_IF_ERROR(CheckImage(image));
  return Make(image, image.shape().dim(0), image.shape().dim(1), fill, /*fills_all=*/true);
}

template <typename T, typename Channels>
void CopyMirrored(Pixels<T> from, Pixels<T> to, Channels channels) {
  for (int64_t y = 0; y < from.height; ++y) {
    const T* left = from.at(y, 0);
    T* right = to.at(y, from.width);
    for (int64_t x = 0; x < from.width; ++x, left += channels) {
      right -= channels;
      for (int64_t k = 0; k < channels; ++k) right[k] = left[k];
    }
  }
}

// The intersection of [first, first + size) and [0, limit).
struct Range {
  Range(int64_t first, int64_t size, int64_t limit)
      : begin(std::clamp<int64_t>(first, 0, limit)),
        end(std::clamp<int64_t>(first + size, 0, limit)) {}
  int64_t begin, end;
};

}  // namespace

absl::StatusOr<Tensor> FlipLeftRight(const Tensor& image) {
  return MakeOfSameSize(image, [](auto from, auto to) {
    switch (from.channels) {  // a constant count makes the loop several times as fast
      case 1:
        return CopyMirrored(from, to, std::integral_constant<int64_t, 1>());
      case 3:
        return CopyMirrored(from, to, std::integral_constant<int64_t, 3>());
      case 4:
        return CopyMirrored(from, to, std::integral_constant<int64_t, 4>());
      default:
        return CopyMirrored(from, to, from.channels);
    }
  });
}

absl::StatusOr<Tensor> FlipUpDown(const Tensor& image) {
  return MakeOfSameSize(image, [](auto from, auto to) {
    for (int64_t y = 0; y < from.height; ++y) {
      std::copy_n(from.at(y, 0), from.width * from.channels, to.at(from.height - 1 - y, 0));
    }
  });
}

absl::StatusOr<Tensor> Crop(const Tensor& image, int64_t y, int64_t x, int64_t height,
                            int64_t width) {
  MF_RETURN_IF_ERROR(CheckOffset(y, x));
  const auto copy = [&](auto from, auto to) {
    const Range rows(y, height, from.height), columns(x, width, from.width);
    if (columns.begin >= columns.end) return;
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      std::copy_n(from.at(row, columns.begin), (columns.end - columns.begin) * from.channels,
                  to.at(row - y, columns.begin - x));
    }
  };
  const bool is_inside = image.shape().rank() == 3 && y >= 0 && x >= 0 && height >= 0 &&
                         width >= 0 && height <= image.shape().dim(0) - y &&
                         width <= image.shape().dim(1) - x;
  return Make(image, height, width, copy, is_inside);
}

absl::StatusOr<Tensor> Erase(const Tensor& image, int64_t y, int64_t x, int64_t height,
                             int64_t width) {
  MF_RETURN_IF_ERROR(CheckOffset(y, x));
  MF_RETURN_IF_ERROR(CheckSides(height, width));
  return MakeOfSameSize(image, [&](auto from, auto to) {
    std::copy_n(from.data, from.size(), to.data);
    const Range rows(y, height, to.height), columns(x, width, to.width);
    if (columns.begin >= columns.end) return;
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      std::fill_n(to.at(row, columns.begin), (columns.end - columns.begin) * to.channels, 0);
    }
  });
}

absl::StatusOr<Tensor> Resize(const Tensor& image, int64_t height, int64_t width) {
  MF_RETURN_IF_ERROR(CheckImage(image));
  MF_RETURN_IF_ERROR(CheckSides(height, width));
  if (image.num_elements() == 0 && height * width > 0) {
    return absl::InvalidArgumentError(
        "image: cannot resize an image without pixels; expected at least one, got none");
  }
  // The input pixels on either side of an output pixel, and the weight of the second one.
  struct Between {
    int64_t low, high;
    float weight;
  };
  const auto between = [](int64_t size, int64_t new_size) {
    std::vector<Between> all(new_size);
    const float scale = static_cast<float>(size) / static_cast<float>(new_size);
    for (int64_t i = 0; i < new_size; ++i) {
      const float at = (static_cast<float>(i) + 0.5f) * scale - 0.5f;
      const float low = std::floor(at);
      all[i] = {std::max<int64_t>(static_cast<int64_t>(low), 0),
                std::min<int64_t>(static_cast<int64_t>(low) + 1, size - 1), at - low};
    }
    return all;
  };
  const std::vector<Between> rows = between(image.shape().dim(0), height);
  const std::vector<Between> columns = between(image.shape().dim(1), width);
  return Make(image, height, width, [&](auto from, auto to) {
    using T = std::remove_reference_t<decltype(*to.data)>;
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x) {
        const Between& r = rows[y];
        const Between& c = columns[x];
        for (int64_t k = 0; k < to.channels; ++k) {
          const auto mix = [&](int64_t row) {
            const float left = from.at(row, c.low)[k], right = from.at(row, c.high)[k];
            return left + (right - left) * c.weight;
          };
          const float top = mix(r.low), bottom = mix(r.high);
          to.at(y, x)[k] = FromDouble<T>(top + (bottom - top) * r.weight);
        }
      }
    }
  });
}

absl::StatusOr<Tensor> Rotate(const Tensor& image, double radians) {
  MF_RETURN_IF_ERROR(CheckNumbers("image", {{"radians", radians, kAnyNumber}}));
  const double cos = std::cos(radians), sin = std::sin(radians);
  return MakeOfSameSize(image, [&](auto from, auto to) {
    using T = std::remove_reference_t<decltype(*to.data)>;
    const double center_y = static_cast<double>(from.height - 1) / 2;
    const double center_x = static_cast<double>(from.width - 1) / 2;
    for (int64_t y = 0; y < to.height; ++y) {
      for (int64_t x = 0; x < to.width; ++x) {
        // The position in the input that maps to this output pixel. The y axis points down.
        const double dy = static_cast<double>(y) - center_y, dx = static_cast<double>(x) - center_x;
        const double from_x = cos * dx - sin * dy + center_x;
        const double from_y = sin * dx + cos * dy + center_y;
        const auto top = static_cast<int64_t>(std::floor(from_y));
        const auto left = static_cast<int64_t>(std::floor(from_x));
        const double down = from_y - static_cast<double>(top);
        const double right = from_x - static_cast<double>(left);
        for (int64_t k = 0; k < to.channels; ++k) {
          double sum = 0;
          const auto add = [&](int64_t row, int64_t column, double weight) {
            if (weight > 0 && from.contains(row, column)) sum += weight * from.at(row, column)[k];
          };
          add(top, left, (1 - down) * (1 - right));
          add(top, left + 1, (1 - down) * right);
          add(top + 1, left, down * (1 - right));
          add(top + 1, left + 1, down * right);
          to.at(y, x)[k] = FromDouble<T>(sum);
        }
      }
    }
  });
}

absl::StatusOr<Tensor> AdjustBrightness(const Tensor& image, double delta) {
  MF_RETURN_IF_ERROR(CheckNumbers("image", {{"delta", delta, kAnyNumber}}));
  return MakeOfSameSize(image, [&](auto from, auto to) {
    using T = std::remove_reference_t<decltype(*to.data)>;
    std::transform(from.data, from.data + from.size(), to.data,
                   [&](T value) { return FromDouble<T>(value + delta); });
  });
}

absl::StatusOr<Tensor> AdjustContrast(const Tensor& image, double factor) {
  MF_RETURN_IF_ERROR(CheckNumbers("image", {{"factor", factor, kAnyNumber}}));
  return MakeOfSameSize(image, [&](auto from, auto to) {
    using T = std::remove_reference_t<decltype(*to.data)>;
    for (int64_t k = 0; k < from.channels; ++k) {
      double sum = 0;
      for (int64_t i = k; i < from.size(); i += from.channels) sum += from.data[i];
      const double mean = sum / static_cast<double>(from.height * from.width);
      for (int64_t i = k; i < from.size(); i += from.channels) {
        to.data[i] = FromDouble<T>((from.data[i] - mean) * factor + mean);
      }
    }
  });
}

absl::StatusOr<Tensor> Rescale(const Tensor& image, double scale, double offset) {
  MF_RETURN_IF_ERROR(
      CheckNumbers("image", {{"scale", scale, kAnyNumber}, {"offset", offset, kAnyNumber}}));
  MF_RETURN_IF_ERROR(CheckImage(image));
  MF_ASSIGN_OR_RETURN(Tensor made, NewImage(DT_FLOAT, image.shape()));
  const auto a = static_cast<float>(scale), b = static_cast<float>(offset);
  WithPixels(image, [&](auto from) {
    std::transform(from.data, from.data + from.size(), made.data<float>(),
                   [a, b](auto value) { return static_cast<float>(value) * a + b; });
  });
  return made;
}

absl::StatusOr<Tensor> Normalize(const Tensor& image, const std::vector<float>& mean,
                                 const std::vector<float>& deviation, double scale) {
  MF_RETURN_IF_ERROR(CheckImage(image));
  const int64_t channels = image.shape().dim(2);
  if (std::ssize(mean) != channels || std::ssize(deviation) != channels) {
    return absl::InvalidArgumentError(
        absl::StrCat("image: expected a mean and a deviation for each of ", channels,
                     " channels, got ", mean.size(), " and ", deviation.size()));
  }
  MF_RETURN_IF_ERROR(CheckNumbers("image", {{"scale", scale, kAnyNumber}}));
  for (size_t k = 0; k < mean.size(); ++k) {
    MF_RETURN_IF_ERROR(CheckNumbers(
        "image", {{"mean", mean[k], kAnyNumber}, {"deviation", deviation[k], kPositive}}));
  }
  MF_ASSIGN_OR_RETURN(Tensor made, NewImage(DT_FLOAT, image.shape()));
  WithPixels(image, [&](auto from) {
    float* to = made.data<float>();
    for (int64_t i = 0; i < from.size(); i += channels) {
      for (int64_t k = 0; k < channels; ++k) {
        const float value = static_cast<float>(from.data[i + k]) * static_cast<float>(scale);
        to[i + k] = (value - mean[k]) / deviation[k];
      }
    }
  });
  return made;
}

}  // namespace images
}  // namespace mirrorflow
