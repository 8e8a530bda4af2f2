// SPDX-License-Identifier: Apache-2.0
//
// Relay: passes bytes between a stream and a local socket, for a library that reads and writes
// sockets by itself. So gRPC sees only connections whose other end has proven itself, encrypted by
// TlsStream if there are certificates: gRPC 1.51 makes no connection with TLS of an open socket.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_RELAY_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_RELAY_H_

#include <poll.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "distribute/collective/tcp/owned_socket.h"
#include "distribute/collective/tcp/stream.h"

namespace mirrorflow {

class Relay {
 public:
  // Also returns the other end of the local socket, which the caller hands to the library.
  // ResourceExhausted without descriptors.
  static absl::StatusOr<std::pair<std::unique_ptr<Relay>, OwnedSocket>> Create(
      std::unique_ptr<Stream> stream);

  // Moves bytes as far as possible without waiting, and not for long. Unavailable, with the reason,
  // once either side has ended and its last bytes are on the other; DataLoss if they were changed
  // on the way.
  absl::Status Advance();
  // Adds what poll() must wait for until the next Advance.
  void AddPolled(std::vector<pollfd>* polled) const;
  // Whether Advance can move more bytes at once.
  bool can_go_on() const { return can_go_on_; }

  const Stream& stream() const { return *stream_; }

 private:
  Relay(std::unique_ptr<Stream> stream, OwnedSocket local)
      : stream_(std::move(stream)), local_(PlainStream(std::move(local))) {}

  // What one side has received and the other has not sent yet.
  struct Buffer {
    std::array<char, size_t{16} << 10> bytes;
    size_t begin = 0, end = 0;

    bool empty() const { return begin == end; }
  };
  static absl::StatusOr<bool> Move(Stream& from, Stream& to, Buffer* buffer);

  const std::unique_ptr<Stream> stream_, local_;
  Buffer inbound_, outbound_;
  bool can_go_on_ = true;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_RELAY_H_
