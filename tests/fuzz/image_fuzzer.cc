// SPDX-License-Identifier: Apache-2.0
//
// Decodes a PNG or JPEG image or rejects it. With other options, the same pixels must be decoded.
#include "framework/core/status.h"
#include "train/formats/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mirrorflow;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  constexpr int64_t kMaxPixels = 1 << 18;
  const auto image = DecodeImage(bytes, {.max_pixels = kMaxPixels});
  MF_CHECK(image.ok() || image.status().code() != absl::StatusCode::kInternal);
  if (!image.ok()) return 0;
  const int64_t height = image->shape().dim(0), width = image->shape().dim(1);
  MF_CHECK(height * width <= kMaxPixels);
  const int ratio = data[0] == 0xff ? 2 : 1;  // 2 for JPEG
  const auto grey = DecodeImage(bytes, {.channels = 1, .ratio = ratio});
  MF_CHECK(!grey.ok() ||
           grey->shape() == Shape({(height + ratio - 1) / ratio, (width + ratio - 1) / ratio, 1}));
  return 0;
}
