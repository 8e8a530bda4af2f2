// SPDX-License-Identifier: Apache-2.0
//
// TcpPeer: one end of a connection between two ranks. It sends and receives messages as frames
// (frame.h). A message that arrives before this rank expects it is buffered. While the buffered
// messages exceed a limit, this end reads nothing from the peer.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_TCP_TCP_PEER_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_TCP_TCP_PEER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "distribute/collective/tcp/frame.h"
#include "distribute/collective/tcp/stream.h"
#include "distribute/collective/transport.h"

namespace mirrorflow {

class TcpPeer {
 public:
  TcpPeer(int own_rank, int rank, uint64_t incarnation, std::unique_ptr<Stream> stream)
      : own_rank_(own_rank), rank_(rank), incarnation_(incarnation), stream_(std::move(stream)) {}

  int rank() const { return rank_; }
  // Closes the connection, which signals to the other end that no more data follows.
  void Close() { stream_ = nullptr; }

  void Send(const Transfer& transfer, absl::Span<const std::byte> bytes);
  absl::Status Receive(const Transfer& transfer, absl::Span<std::byte> bytes);

  // Moves data without waiting. Sets `*moved` if any byte moved.
  absl::Status Progress(bool* moved);

  // Returns the events to wait for with poll().
  pollfd events() const;
  std::optional<Transport::Pending> pending() const;

 private:
  struct Message {
    Transfer transfer;
    std::byte* bytes = nullptr;
    size_t size = 0;
    size_t done = 0;      // bytes of finished frames
    uint64_t serial = 0;  // numbers the messages in the order they were started
  };
  // Identifies a message exchanged with this peer.
  struct Key {
    uint64_t sequence;
    uint32_t part;
    friend bool operator==(const Key&, const Key&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const Key& key) {
      return H::combine(std::move(h), key.sequence, key.part);
    }
  };
  static Key KeyOf(const MessageTag& tag) { return {tag.sequence, tag.part}; }
  // A message that this rank does not expect yet.
  struct Early {
    MessageTag tag;
    size_t size = 0;
    std::vector<std::byte> bytes;  // grows frame by frame
    size_t done = 0;               // bytes of finished frames
  };
  // A frame that is partly sent or received: its header, then its payload.
  struct Frame {
    FrameHeaderBytes header;
    std::byte* payload = nullptr;
    size_t payload_bytes = 0;
    size_t done = 0;  // bytes sent or received so far, header included
  };

  absl::Status ProgressSends(bool* moved);
  void BeginFrame();
  absl::Status ProgressReceives(bool* moved);
  absl::Status TakeHeader();
  absl::Status CheckFits(const FrameHeader& header, size_t done, size_t size) const;
  absl::Status TakePayload();
  absl::Status Unexpected(const MessageTag& expected, size_t expected_bytes, const MessageTag& got,
                          size_t got_bytes) const;
  bool is_full() const { return early_bytes_ > kMaxEarlyBytes; }
  // Returns an error that names the message with `tag` or, if `tag` is null, the oldest pending
  // message.
  absl::Status Lost(const absl::Status& why, const MessageTag* tag = nullptr) const;

  static constexpr size_t kMaxEarlyBytes = size_t{64} << 20;

  const int own_rank_, rank_;
  const uint64_t incarnation_;
  std::unique_ptr<Stream> stream_;  // null once closed
  uint64_t started_ = 0;            // messages started, in both directions

  std::vector<Message> sends_;  // a heap: most urgent first, then oldest
  std::optional<Message> sending_;
  Frame sent_;
  uint64_t frames_sent_ = 0;

  absl::flat_hash_map<Key, Message> receives_;
  absl::flat_hash_map<Key, Early> early_;
  size_t early_bytes_ = 0;
  uint64_t last_sequence_ = 0;  // the highest of all messages expected so far
  Frame received_;
  FrameHeader receiving_;  // the header, once it is complete
  uint64_t frames_received_ = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_TCP_TCP_PEER_H_
