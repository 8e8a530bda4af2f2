// SPDX-License-Identifier: Apache-2.0
//
// Decodes a PNG whose chunks have correct checksums, which the fuzzer could not guess, and may
// inflate to much more than their size. If the decoder keeps inflated data, the fuzzer's memory
// limit detects it.
#include <zlib.h>

#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "framework/core/status.h"
#include "tests/fuzz/fuzz_input.h"
#include "train/formats/image.h"

namespace mirrorflow {
namespace {

constexpr std::array<const char*, 24> kTypes = {
    "IDAT", "PLTE", "tRNS", "IEND", "IHDR", "zTXt", "iTXt", "tEXt", "iCCP", "sPLT", "eXIf", "gAMA",
    "cHRM", "sRGB", "sBIT", "bKGD", "hIST", "pHYs", "tIME", "oFFs", "pCAL", "sCAL", "abCd", "ABCD"};

std::string BigEndian(uint32_t number) {
  return {static_cast<char>(number >> 24), static_cast<char>(number >> 16),
          static_cast<char>(number >> 8), static_cast<char>(number)};
}

std::string Deflated(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string out(size, '\0');
  MF_CHECK(compress(reinterpret_cast<Bytef*>(out.data()), &size,
                    reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()) == Z_OK);
  out.resize(size);
  return out;
}

void AppendChunk(absl::string_view type, const std::string& data, std::string* png) {
  const std::string checked = std::string(type) + data;
  *png += BigEndian(static_cast<uint32_t>(data.size())) + checked;
  *png += BigEndian(crc32(0, reinterpret_cast<const Bytef*>(checked.data()), checked.size()));
}

// Returns compressed data that inflates to almost the maximum size that libpng accepts for a chunk.
const std::string& Bomb() {
  static const auto* const bomb = new std::string(Deflated(std::string(7'900'000, 'A')));
  return *bomb;
}

// Appends the chunks that the input describes next: a byte selects their type, another what to do
// with the data, and then come the data's length and the data.
void AppendChunks(FuzzInput& input, std::string* png) {
  const char* const type = kTypes[input.Take<uint8_t>() % kTypes.size()];
  const auto action = input.Take<uint8_t>();
  std::string data = input.TakeBytes(input.Take<uint16_t>());
  if (action & 1) data = Deflated(data);
  if (action & 2) data += Bomb();
  const int count = action & 4 ? 1 + input.Take<uint8_t>() : 1;
  for (int i = 0; i < count; ++i) AppendChunk(type, data, png);
}

}  // namespace
}  // namespace mirrorflow

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mirrorflow;
  FuzzInput input(data, size);
  std::string png = "\x89PNG\r\n\x1a\n";
  const uint32_t width = input.Take<uint8_t>(), height = input.Take<uint8_t>();
  AppendChunk("IHDR", BigEndian(width) + BigEndian(height) + input.TakeBytes(5), &png);
  constexpr size_t kMaxBytes = size_t{16} << 20;
  while (!input.empty() && png.size() < kMaxBytes) AppendChunks(input, &png);
  const auto image = DecodeImage(png, {.max_pixels = 1 << 16});
  MF_CHECK(image.status().code() != absl::StatusCode::kInternal);
  return 0;
}
