// SPDX-License-Identifier: Apache-2.0
#include "train/formats/exif.h"

#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

constexpr uint32_t kOrientationTag = 0x0112, kShort = 3;
constexpr size_t kEntryBytes = 12;
constexpr absl::string_view kExifStart("Exif\0\0", 6);

// Reads an unsigned integer of `size` bytes, at most 4. Returns 0 if `bytes` is too short.
uint32_t Number(absl::string_view bytes, size_t offset, size_t size, bool big_endian) {
  if (offset > bytes.size() || bytes.size() - offset < size) return 0;
  uint32_t value = 0;
  for (size_t i = 0; i < size; ++i) {
    value =
        value << 8 | static_cast<unsigned char>(bytes[offset + (big_endian ? i : size - 1 - i)]);
  }
  return value;
}

// `tiff` is the contents of an EXIF segment: a TIFF header with its first directory.
Orientation OrientationOfExif(absl::string_view tiff) {
  const bool big = absl::StartsWith(tiff, absl::string_view("MM\0*", 4));
  if (!big && !absl::StartsWith(tiff, absl::string_view("II*\0", 4))) return Orientation::kTopLeft;
  const size_t directory = Number(tiff, 4, 4, big);
  const uint32_t entries = Number(tiff, directory, 2, big);
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + i * kEntryBytes;
    if (entry > tiff.size() || tiff.size() - entry < kEntryBytes) break;
    if (Number(tiff, entry, 2, big) != kOrientationTag) continue;
    const uint32_t type = Number(tiff, entry + 2, 2, big), count = Number(tiff, entry + 4, 4, big);
    const uint32_t value = Number(tiff, entry + 8, 2, big);
    const bool is_valid = type == kShort && count == 1 && value >= 1 && value <= 8;
    return is_valid ? static_cast<Orientation>(value) : Orientation::kTopLeft;
  }
  return Orientation::kTopLeft;
}

}  // namespace

Orientation OrientationOfJpeg(absl::string_view bytes) {
  constexpr uint32_t kStartOfScan = 0xda, kEndOfImage = 0xd9, kApp1 = 0xe1;
  for (size_t at = 2; Number(bytes, at, 1, true) == 0xff;) {
    const uint32_t marker = Number(bytes, at + 1, 1, true);
    if (marker == kStartOfScan || marker == kEndOfImage) break;
    if (marker == 0xff) {  // a padding byte
      ++at;
      continue;
    }
    const size_t length = Number(bytes, at + 2, 2, true);  // includes its own two bytes
    if (length < 2) break;
    absl::string_view segment = bytes.substr(std::min(at + 4, bytes.size()), length - 2);
    if (marker == kApp1 && absl::ConsumePrefix(&segment, kExifStart)) {
      return OrientationOfExif(segment);
    }
    at += 2 + length;
  }
  return Orientation::kTopLeft;
}

Orientation OrientationOfPng(absl::string_view bytes) {
  constexpr size_t kSignatureBytes = 8, kAround = 12;  // a chunk's length, type and checksum
  for (size_t at = kSignatureBytes; at < bytes.size();) {
    const size_t left = bytes.size() - at, length = Number(bytes, at, 4, true);
    if (left < kAround || left - kAround < length) break;
    if (bytes.substr(at + 4, 4) == "eXIf") {
      const absl::string_view checked = bytes.substr(at + 4, 4 + length);
      const uint32_t crc =
          crc32_z(0, reinterpret_cast<const unsigned char*>(checked.data()), checked.size());
      const bool is_whole = crc == Number(bytes, at + 8 + length, 4, true);
      return is_whole ? OrientationOfExif(checked.substr(4)) : Orientation::kTopLeft;
    }
    at += kAround + length;
  }
  return Orientation::kTopLeft;
}

absl::StatusOr<Tensor> TurnUpright(const Tensor& image, Orientation orientation) {
  if (orientation == Orientation::kTopLeft) return image;
  const int64_t rows = image.shape().dim(0), columns = image.shape().dim(1);
  const int64_t pixel = image.shape().dim(2);
  // Whether rows in the file become columns in the upright image.
  const bool swaps = orientation >= Orientation::kLeftTop;
  const int64_t height = swaps ? columns : rows, width = swaps ? rows : columns;
  const bool is_mirrored_down =
      orientation == Orientation::kBottomRight || orientation == Orientation::kBottomLeft ||
      orientation == Orientation::kRightBottom || orientation == Orientation::kLeftBottom;
  const bool is_mirrored_across =
      orientation == Orientation::kTopRight || orientation == Orientation::kBottomRight ||
      orientation == Orientation::kRightTop || orientation == Orientation::kRightBottom;
  MF_ASSIGN_OR_RETURN(Tensor upright, Tensor::Allocate(DT_UINT8, {height, width, pixel}));
  const uint8_t* const from = image.data<uint8_t>();
  uint8_t* to = upright.data<uint8_t>();
  for (int64_t y = 0; y < height; ++y) {
    const int64_t down = is_mirrored_down ? height - 1 - y : y;
    for (int64_t x = 0; x < width; ++x, to += pixel) {
      const int64_t across = is_mirrored_across ? width - 1 - x : x;
      const int64_t place = swaps ? across * columns + down : down * columns + across;
      std::memcpy(to, from + place * pixel, pixel);
    }
  }
  return upright;
}

}  // namespace mirrorflow
