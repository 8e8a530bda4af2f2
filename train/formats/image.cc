// SPDX-License-Identifier: Apache-2.0
#include "train/formats/image.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/core/file_kind.h"
#include "framework/core/names.h"
#include "framework/core/status.h"
#include "train/formats/image_internal.h"

namespace mirrorflow {
namespace internal {

absl::Status CheckImageOptions(const ImageOptions& options) {
  if (options.channels != 0 && options.channels != 1 && options.channels != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("invalid number of channels; expected 0, 1 or 3, got ", options.channels));
  }
  if (options.ratio != 1 && options.ratio != 2 && options.ratio != 4 && options.ratio != 8) {
    return absl::InvalidArgumentError(
        absl::StrCat("invalid ratio; expected 1, 2, 4 or 8, got ", options.ratio));
  }
  if (options.max_pixels < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("invalid max_pixels; expected at least 1, got ", options.max_pixels));
  }
  return absl::OkStatus();
}

absl::Status CheckPixels(int64_t height, int64_t width, const ImageOptions& options) {
  // Both formats limit height and width to less than 2^31, so the product does not overflow.
  if (height * width <= options.max_pixels) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the image is too large; expected at most ",
                                                   options.max_pixels, " pixels, got ", height,
                                                   " x ", width));
}

absl::Status DamagedImage(absl::string_view format, absl::string_view message) {
  return absl::DataLossError(absl::StrCat("the image is damaged; expected a whole ", format,
                                          " image, got the error '", Printable(message), "'"));
}

absl::StatusOr<Tensor> ToGrey(const Tensor& rgb) {
  const int64_t height = rgb.shape().dim(0), width = rgb.shape().dim(1);
  MF_ASSIGN_OR_RETURN(Tensor grey, Tensor::Allocate(DT_UINT8, {height, width, 1}));
  const uint8_t* from = rgb.data<uint8_t>();
  // The weights, scaled by 2^16, add up to 2^16.
  for (uint8_t& to : grey.flat<uint8_t>()) {
    to = (from[0] * 19595u + from[1] * 38470u + from[2] * 7471u + 32768u) >> 16;
    from += 3;
  }
  return grey;
}

}  // namespace internal

absl::StatusOr<Tensor> DecodeImage(absl::string_view bytes, const ImageOptions& options) {
  if (absl::StartsWith(bytes, "\x89PNG\r\n\x1a\n")) return DecodePng(bytes, options);
  if (absl::StartsWith(bytes, "\xff\xd8\xff")) return DecodeJpeg(bytes, options);
  static constexpr FileKind kKinds[] = {FileKind::kPng, FileKind::kJpeg};
  MF_RETURN_IF_ERROR(CheckFileKind(KindOfBytes(bytes.substr(0, kFileKindBytes), bytes.size()),
                                   {"a PNG or JPEG image", FileReader::Use::kData, kKinds}));
  return absl::InvalidArgumentError(
      absl::StrCat("unknown image format; expected PNG or JPEG, got bytes that begin with '",
                   Printable(bytes.substr(0, 8)), "'"));
}

}  // namespace mirrorflow
