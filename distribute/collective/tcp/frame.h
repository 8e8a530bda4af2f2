// SPDX-License-Identifier: Apache-2.0
//
// TcpTransport sends each message as one or more frames. A frame consists of a fixed-size header,
// in little-endian order, and up to kMaxPayload bytes of the message. Checksums detect corruption
// by a faulty network; they do not protect against deliberate changes.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_TCP_FRAME_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_TCP_FRAME_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "distribute/collective/transport.h"

namespace mirrorflow {

// The largest payload. A payload of this size stays in a core's cache from its arrival until it is
// used.
inline constexpr size_t kMaxPayload = size_t{256} << 10;
inline constexpr size_t kFrameHeaderBytes = 72;
using FrameHeaderBytes = std::array<std::byte, kFrameHeaderBytes>;

struct FrameHeader {
  uint64_t incarnation = 0;
  uint64_t number = 0;  // index among the frames sent in the same direction
  MessageTag tag;
  uint64_t message_bytes = 0;  // size of the whole message
  uint32_t payload_bytes = 0;  // size of this frame's payload
  uint32_t payload_crc = 0;    // CRC-32C

  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
};

// Adds the magic number, the version and the header's own CRC-32C.
FrameHeaderBytes PackFrameHeader(const FrameHeader& header);
// Returns DataLoss if `bytes` is not a header or its checksum is wrong.
absl::StatusOr<FrameHeader> UnpackFrameHeader(const FrameHeaderBytes& bytes);

uint32_t PayloadCrc(absl::Span<const std::byte> payload);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_TCP_FRAME_H_
