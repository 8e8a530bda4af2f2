// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/tcp/frame.h"

#include "absl/strings/str_cat.h"
#include "framework/core/crc32c.h"

namespace mirrorflow {
namespace {

constexpr uint32_t kMagic = 0x4446464d;  // `MFFD` in memory
constexpr uint8_t kVersion = 1, kData = 1;

// Offsets of the fields.
constexpr size_t kMagicAt = 0, kVersionAt = 4, kTypeAt = 5, kReservedAt = 6, kIncarnationAt = 8,
                 kNumberAt = 16, kStepAt = 24, kSequenceAt = 32, kFingerprintAt = 40,
                 kMessageBytesAt = 48, kPartAt = 56, kPayloadBytesAt = 60, kPayloadCrcAt = 64,
                 kHeaderCrcAt = 68;

template <typename T>
void Put(T value, size_t at, FrameHeaderBytes* bytes) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    (*bytes)[at + i] = static_cast<std::byte>(value >> (8 * i));
  }
}
template <typename T>
T Take(const FrameHeaderBytes& bytes, size_t at) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value | static_cast<T>(bytes[at + i]) << (8 * i));
  }
  return value;
}

uint32_t HeaderCrc(const FrameHeaderBytes& bytes) {
  return PayloadCrc({bytes.data(), kHeaderCrcAt});
}

}  // namespace

uint32_t PayloadCrc(absl::Span<const std::byte> payload) {
  return Crc32c({reinterpret_cast<const char*>(payload.data()), payload.size()});
}

FrameHeaderBytes PackFrameHeader(const FrameHeader& header) {
  FrameHeaderBytes bytes = {};
  Put(kMagic, kMagicAt, &bytes);
  Put(kVersion, kVersionAt, &bytes);
  Put(kData, kTypeAt, &bytes);
  Put(header.incarnation, kIncarnationAt, &bytes);
  Put(header.number, kNumberAt, &bytes);
  Put(header.tag.step, kStepAt, &bytes);
  Put(header.tag.sequence, kSequenceAt, &bytes);
  Put(header.tag.fingerprint, kFingerprintAt, &bytes);
  Put(header.message_bytes, kMessageBytesAt, &bytes);
  Put(header.tag.part, kPartAt, &bytes);
  Put(header.payload_bytes, kPayloadBytesAt, &bytes);
  Put(header.payload_crc, kPayloadCrcAt, &bytes);
  Put(HeaderCrc(bytes), kHeaderCrcAt, &bytes);
  return bytes;
}

absl::StatusOr<FrameHeader> UnpackFrameHeader(const FrameHeaderBytes& bytes) {
  const auto wrong = [](absl::string_view what, uint64_t expected, uint64_t got) {
    return absl::DataLossError(absl::StrCat("damaged frame: wrong ", what, "; expected ",
                                            absl::Hex(expected), ", got ", absl::Hex(got)));
  };
  if (const auto magic = Take<uint32_t>(bytes, kMagicAt); magic != kMagic) {
    return wrong("magic number", kMagic, magic);
  }
  if (const auto version = Take<uint8_t>(bytes, kVersionAt); version != kVersion) {
    return wrong("version", kVersion, version);
  }
  if (const auto type = Take<uint8_t>(bytes, kTypeAt); type != kData) {
    return wrong("type", kData, type);
  }
  if (const auto crc = Take<uint32_t>(bytes, kHeaderCrcAt); crc != HeaderCrc(bytes)) {
    return wrong("header CRC", HeaderCrc(bytes), crc);
  }
  if (const auto zero = Take<uint16_t>(bytes, kReservedAt); zero != 0) {
    return wrong("reserved bytes", 0, zero);
  }
  return FrameHeader{.incarnation = Take<uint64_t>(bytes, kIncarnationAt),
                     .number = Take<uint64_t>(bytes, kNumberAt),
                     .tag = {.step = Take<uint64_t>(bytes, kStepAt),
                             .sequence = Take<uint64_t>(bytes, kSequenceAt),
                             .fingerprint = Take<uint64_t>(bytes, kFingerprintAt),
                             .part = Take<uint32_t>(bytes, kPartAt)},
                     .message_bytes = Take<uint64_t>(bytes, kMessageBytesAt),
                     .payload_bytes = Take<uint32_t>(bytes, kPayloadBytesAt),
                     .payload_crc = Take<uint32_t>(bytes, kPayloadCrcAt)};
}

}  // namespace mirrorflow
