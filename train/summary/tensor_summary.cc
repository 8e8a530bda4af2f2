// SPDX-License-Identifier: Apache-2.0
#include "train/summary/tensor_summary.h"

#include <png.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "framework/core/reduced_float.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

// Calls `fn(double)` for each element in row-major order. Returns false, without calling `fn`, if
// the elements are not real numbers.
template <typename Fn>
bool ForEachValue(const Tensor& tensor, Fn&& fn) {
  if (IsReducedFloat(tensor.dtype())) {
    const bool is_half = tensor.dtype() == DT_HALF;
    const auto* const bits = reinterpret_cast<const uint16_t*>(tensor.raw());
    for (const uint16_t b : absl::MakeConstSpan(bits, tensor.num_elements())) {
      fn(static_cast<double>(is_half ? HalfFormat::ToFloat(b) : BFloat16Format::ToFloat(b)));
    }
    return true;
  }
  auto visit = [&](auto tag) {
    for (const auto value : tensor.flat<typename decltype(tag)::type>()) {
      fn(static_cast<double>(value));
    }
    return true;
  };
  return DispatchDataType(tensor.dtype(), visit, false);
}

constexpr int kMaxBuckets = 1 << 20;

// Sets all fields except the buckets. Returns false if the elements are not real numbers.
bool SetStatistics(const Tensor& values, proto::HistogramProto* histogram) {
  double least = std::numeric_limits<double>::infinity(), most = -least;
  double count = 0, sum = 0, sum_squares = 0;
  const bool is_real = ForEachValue(values, [&](double value) {
    if (!std::isfinite(value)) return;
    least = std::min(least, value);
    most = std::max(most, value);
    ++count;
    sum += value;
    sum_squares += value * value;
  });
  if (count == 0) return is_real;
  histogram->set_min(least);
  histogram->set_max(most);
  histogram->set_num(count);
  histogram->set_sum(sum);
  histogram->set_sum_squares(sum_squares);
  return true;
}

constexpr int64_t kMaxPixels = int64_t{1} << 28;  // limits each side as well as the image

struct Size {
  int64_t height, width, channels;
};

absl::StatusOr<Size> SizeOf(const Tensor& image, absl::string_view data_format) {
  if (data_format != "HWC" && data_format != "CHW" && data_format != "HW") {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown data_format; expected HWC, CHW or HW, got '", data_format, "'"));
  }
  const Shape& shape = image.shape();
  if (!image.has_value() || shape.rank() != static_cast<int>(data_format.size())) {
    return absl::InvalidArgumentError(absl::StrCat("wrong rank of an image with data_format ",
                                                   data_format, "; expected ", data_format.size(),
                                                   " dimensions, got ", image.TypeString()));
  }
  auto dim = [&](char name) {
    const size_t i = data_format.find(name);
    return i == absl::string_view::npos ? 1 : shape.dim(static_cast<int>(i));
  };
  const Size size = {dim('H'), dim('W'), dim('C')};
  if (size.channels < 1 || size.channels > 4) {
    return absl::InvalidArgumentError(
        absl::StrCat("wrong number of channels in an image with data_format ", data_format,
                     "; expected 1 to 4, got ", size.channels, " in ", image.TypeString()));
  }
  if (size.height < 1 || size.width < 1 || size.height > kMaxPixels / size.width) {
    return absl::InvalidArgumentError(absl::StrCat("wrong size of the image; expected 1 to ",
                                                   kMaxPixels, " pixels, got ",
                                                   image.TypeString()));
  }
  return size;
}

absl::StatusOr<std::vector<uint8_t>> BytesOf(const Tensor& image) {
  std::vector<uint8_t> bytes;
  bytes.reserve(image.num_elements());
  if (image.dtype() == DT_UINT8) {
    bytes.assign(image.data<uint8_t>(), image.data<uint8_t>() + image.num_elements());
  } else if (IsFloating(image.dtype())) {
    ForEachValue(image, [&](double value) {
      const double clipped = value > 0 ? std::min(value, 1.0) : 0;  // NaN is not above 0
      bytes.push_back(static_cast<uint8_t>(std::lround(255 * clipped)));
    });
  }
  if (static_cast<int64_t>(bytes.size()) != image.num_elements()) {
    return absl::InvalidArgumentError(
        absl::StrCat("wrong dtype of the image; expected uint8, or floating-point in [0, 1], got ",
                     image.TypeString()));
  }
  return bytes;
}

std::vector<uint8_t> ChannelsLast(const std::vector<uint8_t>& planes, int64_t channels) {
  const size_t pixels = planes.size() / channels;
  std::vector<uint8_t> out(planes.size());
  for (size_t i = 0; i < planes.size(); ++i) out[i % pixels * channels + i / pixels] = planes[i];
  return out;
}

absl::StatusOr<std::string> EncodePng(const Size& size, const std::vector<uint8_t>& pixels) {
  constexpr png_uint_32 kFormats[] = {PNG_FORMAT_GRAY, PNG_FORMAT_GA, PNG_FORMAT_RGB,
                                      PNG_FORMAT_RGBA};
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(size.width);
  png.height = static_cast<png_uint_32>(size.height);
  png.format = kFormats[size.channels - 1];
  // Allocate the upper bound, for images that do not compress.
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(png);
  std::string out(bytes, '\0');
  const bool ok =
      png_image_write_to_memory(&png, out.data(), &bytes, /*convert_to_8_bit=*/0, pixels.data(),
                                /*row_stride=*/0, /*colormap=*/nullptr) != 0;
  const std::string message = png.message;
  png_image_free(&png);
  if (!ok) return absl::InternalError(absl::StrCat("cannot encode an image as PNG: ", message));
  out.resize(bytes);
  return out;
}

}  // namespace

absl::StatusOr<proto::HistogramProto> HistogramSummary(const Tensor& values, int buckets) {
  if (buckets < 1 || buckets > kMaxBuckets) {
    return absl::InvalidArgumentError(absl::StrCat(
        "buckets out of range; expected a number in [1, ", kMaxBuckets, "], got ", buckets));
  }
  proto::HistogramProto histogram;
  if (!SetStatistics(values, &histogram)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "wrong dtype of the values; expected real numbers, got ", values.TypeString()));
  }
  if (histogram.num() == 0) return histogram;
  // Halve the values, because the difference of two finite numbers can be infinite.
  const double half_least = histogram.min() / 2, half_most = histogram.max() / 2;
  const double half_width = (half_most - half_least) / buckets;
  if (!(half_width > 0)) {
    histogram.add_bucket_limit(histogram.max());
    histogram.add_bucket(histogram.num());
    return histogram;
  }
  std::vector<double> counts(buckets, 0);
  ForEachValue(values, [&](double value) {
    if (!std::isfinite(value)) return;
    const double bucket = std::floor((value / 2 - half_least) / half_width);
    ++counts[static_cast<size_t>(std::min<double>(bucket, buckets - 1))];
  });
  for (int i = 1; i < buckets; ++i) {
    histogram.add_bucket_limit(2 * (half_least + i * half_width));
  }
  histogram.add_bucket_limit(histogram.max());
  for (const double count : counts) histogram.add_bucket(count);
  return histogram;
}

absl::StatusOr<proto::Summary::Image> ImageSummary(const Tensor& image,
                                                   absl::string_view data_format) {
  MF_ASSIGN_OR_RETURN(const Size size, SizeOf(image, data_format));
  MF_ASSIGN_OR_RETURN(std::vector<uint8_t> pixels, BytesOf(image));
  if (data_format == "CHW") pixels = ChannelsLast(pixels, size.channels);
  MF_ASSIGN_OR_RETURN(std::string png, EncodePng(size, pixels));
  proto::Summary::Image summary;
  summary.set_height(static_cast<int32_t>(size.height));
  summary.set_width(static_cast<int32_t>(size.width));
  summary.set_colorspace(static_cast<int32_t>(size.channels));
  *summary.mutable_encoded_image_string() = std::move(png);
  return summary;
}

}  // namespace mirrorflow
