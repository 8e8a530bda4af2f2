// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes the receiving end of the TCP transport. The input is a list of commands, each an opcode
// and its operands. The other end sends arbitrary bytes or a frame, which may be invalid; this end
// starts to receive a message, or processes what has been sent. For any input, this end must report
// an error or receive what was sent, with bounded memory for messages that arrive early.
#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "distribute/collective/tcp/frame.h"
#include "distribute/collective/tcp/tcp_transport.h"
#include "framework/core/status.h"
#include "tests/fuzz/fuzz_input.h"

namespace mirrorflow {
namespace {

constexpr uint64_t kIncarnation = 7;
constexpr int kMaxExpected = 64;

// Delivers, in pieces, the bytes that the other end has sent.
class Wire final : public Stream {
 public:
  explicit Wire(std::string* sent) : sent_(*sent) {}

  int fd() const override { return -1; }
  absl::StatusOr<size_t> Send(absl::Span<const iovec>) override { return 0; }
  absl::StatusOr<size_t> Receive(absl::Span<const iovec> parts) override {
    size_t moved = 0;
    for (const iovec& part : parts) {
      const size_t count = std::min({part.iov_len, sent_.size() - at_, kPiece - moved});
      if (count > 0) std::memcpy(part.iov_base, sent_.data() + at_, count);
      at_ += count;
      moved += count;
    }
    return moved;
  }

 private:
  static constexpr size_t kPiece = 100;

  const std::string& sent_;
  size_t at_ = 0;
};

// Builds a frame. Flags in the input make its header invalid.
std::string FrameOf(FuzzInput& input, uint64_t number) {
  const auto flags = input.Take<uint8_t>();
  FrameHeader header = {.incarnation = kIncarnation, .number = number};
  header.tag.sequence = input.Take<uint8_t>();
  header.tag.part = input.Take<uint8_t>();
  const std::string payload = input.TakeBytes(input.Take<uint16_t>());
  const auto bytes =
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(payload.data()), payload.size());
  header.message_bytes = flags & 1 ? input.Take<uint64_t>() : payload.size();
  header.payload_bytes = flags & 2 ? input.Take<uint32_t>() : static_cast<uint32_t>(bytes.size());
  header.payload_crc = PayloadCrc(bytes) ^ (flags & 4 ? 1 : 0);
  if (flags & 8) header.number = input.Take<uint64_t>();
  if (flags & 16) header.incarnation = input.Take<uint64_t>();
  if (flags & 32) header.tag.step = header.tag.fingerprint = input.Take<uint8_t>();
  const FrameHeaderBytes packed = PackFrameHeader(header);
  const auto unpacked = UnpackFrameHeader(packed);
  MF_CHECK(unpacked.ok() && *unpacked == header);
  return std::string(reinterpret_cast<const char*>(packed.data()), packed.size()) + payload;
}

// Checks that if `bytes` parse as a header, packing the header gives the same bytes.
void CheckHeader(const std::string& bytes) {
  FrameHeaderBytes header = {};
  std::memcpy(header.data(), bytes.data(), std::min(bytes.size(), header.size()));
  const auto unpacked = UnpackFrameHeader(header);
  MF_CHECK(!unpacked.ok() || PackFrameHeader(*unpacked) == header);
}

void Run(FuzzInput& input) {
  std::string sent;
  std::map<int, std::unique_ptr<Stream>> peers;
  peers.emplace(1, std::make_unique<Wire>(&sent));
  auto transport = CreateTcpTransport(/*rank=*/0, kIncarnation, std::move(peers));
  MF_CHECK(transport.ok());
  std::deque<std::vector<std::byte>> expected;  // exactly sized, so ASan detects overruns
  std::set<std::pair<int, int>> keys;
  int unfinished = 0;
  for (uint64_t frames = 0; !input.empty();) {
    absl::Status status;
    switch (input.Take<uint8_t>() % 4) {
      case 0: {
        const std::string bytes = input.TakeBytes(input.Take<uint8_t>());
        CheckHeader(bytes);
        sent += bytes;
        break;
      }
      case 1:
        sent += FrameOf(input, frames++);
        break;
      case 2: {
        const int sequence = input.Take<uint8_t>(), part = input.Take<uint8_t>();
        const auto size = input.Take<uint16_t>();
        if (size == 0 || expected.size() == kMaxExpected || !keys.emplace(sequence, part).second) {
          break;  // a rank never expects an empty message, too many messages, or the same one twice
        }
        MessageTag tag = {.sequence = static_cast<uint64_t>(sequence)};
        tag.part = static_cast<uint32_t>(part);
        status = (*transport)
                     ->StartReceive({.peer = 1, .tag = tag, .unfinished = &unfinished},
                                    absl::MakeSpan(expected.emplace_back(size)));
        break;
      }
      default:
        status = (*transport)->Progress().status();
        break;
    }
    MF_CHECK(status.code() != absl::StatusCode::kInternal);
    MF_CHECK(unfinished >= 0 && unfinished <= static_cast<int>(expected.size()));
    if (!status.ok()) return;
  }
}

}  // namespace
}  // namespace mirrorflow

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mirrorflow::FuzzInput input(data, size);
  mirrorflow::Run(input);
  return 0;
}
