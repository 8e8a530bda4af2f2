// SPDX-License-Identifier: Apache-2.0
//
// Decodes a PNG or JPEG image or rejects it. If the pixels can be decoded, the header must agree
// with them.
#include "framework/core/status.h"
#include "train/formats/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mirrorflow;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  constexpr int64_t kMaxPixels = 1 << 18;
  const auto header = ImageSize(bytes);
  const auto image = DecodeImage(bytes, {.max_pixels = kMaxPixels});
  MF_CHECK(image.ok() || image.status().code() != absl::StatusCode::kInternal);
  if (!image.ok()) return 0;
  MF_CHECK(header.ok());
  const Shape shape({header->height, header->width, header->channels});
  MF_CHECK(image->shape() == shape && header->height * header->width <= kMaxPixels);
  const int ratio = data[0] == 0xff ? 2 : 1;  // 2 for JPEG
  const auto grey = DecodeImage(bytes, {.channels = 1, .ratio = ratio});
  MF_CHECK(!grey.ok() || grey->shape() == Shape({(header->height + ratio - 1) / ratio,
                                                 (header->width + ratio - 1) / ratio, 1}));
  return 0;
}
