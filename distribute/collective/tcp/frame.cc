// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/tcp/frame.h"

#include <bit>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "framework/core/crc32c.h"

namespace mirrorflow {
namespace {

constexpr uint32_t kMagic = 0x4446464d;  // `MFFD` in memory
constexpr uint8_t kVersion = 1, kData = 1;

// The layout of a header on the wire.
struct WireHeader {
  uint32_t magic = kMagic;
  uint8_t version = kVersion, type = kData;
  uint16_t reserved = 0;
  uint64_t incarnation, number, step, sequence, fingerprint, message_bytes;
  uint32_t part, payload_bytes, payload_crc;
  uint32_t header_crc = 0;  // of all bytes before it
};
static_assert(sizeof(WireHeader) == kFrameHeaderBytes);
static_assert(std::endian::native == std::endian::little);

uint32_t HeaderCrc(const FrameHeaderBytes& bytes) {
  return PayloadCrc({bytes.data(), offsetof(WireHeader, header_crc)});
}

}  // namespace

uint32_t PayloadCrc(absl::Span<const std::byte> payload) {
  return Crc32c({reinterpret_cast<const char*>(payload.data()), payload.size()});
}

FrameHeaderBytes PackFrameHeader(const FrameHeader& header) {
  WireHeader wire = {.incarnation = header.incarnation,
                     .number = header.number,
                     .step = header.tag.step,
                     .sequence = header.tag.sequence,
                     .fingerprint = header.tag.fingerprint,
                     .message_bytes = header.message_bytes,
                     .part = header.tag.part,
                     .payload_bytes = header.payload_bytes,
                     .payload_crc = header.payload_crc};
  wire.header_crc = HeaderCrc(std::bit_cast<FrameHeaderBytes>(wire));
  return std::bit_cast<FrameHeaderBytes>(wire);
}

absl::StatusOr<FrameHeader> UnpackFrameHeader(const FrameHeaderBytes& bytes) {
  const auto wrong = [](absl::string_view what, uint64_t expected, uint64_t got) {
    return absl::DataLossError(absl::StrCat("damaged frame: wrong ", what, "; expected ",
                                            absl::Hex(expected), ", got ", absl::Hex(got)));
  };
  const auto wire = std::bit_cast<WireHeader>(bytes);
  const uint32_t crc = HeaderCrc(bytes);
  if (wire.magic != kMagic) return wrong("magic number", kMagic, wire.magic);
  if (wire.version != kVersion) return wrong("version", kVersion, wire.version);
  if (wire.type != kData) return wrong("type", kData, wire.type);
  if (wire.header_crc != crc) return wrong("header CRC", crc, wire.header_crc);
  if (wire.reserved != 0) return wrong("reserved bytes", 0, wire.reserved);
  return FrameHeader{.incarnation = wire.incarnation,
                     .number = wire.number,
                     .tag = {.step = wire.step,
                             .sequence = wire.sequence,
                             .fingerprint = wire.fingerprint,
                             .part = wire.part},
                     .message_bytes = wire.message_bytes,
                     .payload_bytes = wire.payload_bytes,
                     .payload_crc = wire.payload_crc};
}

}  // namespace mirrorflow
