// SPDX-License-Identifier: Apache-2.0
//
// Relay: forwards bytes between a stream and a local socket, for a library that requires a socket.
// It lets gRPC use connections that have completed a handshake, with TLS if there are certificates:
// gRPC 1.51 cannot add TLS to an open socket.
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
#include "distribute/collective/tcp/stream.h"
#include "framework/core/owned_socket.h"

namespace mirrorflow {

class Relay {
 public:
  // Returns the relay and the library's end of the local socket, or ResourceExhausted if the
  // process is out of descriptors.
  static absl::StatusOr<std::pair<std::unique_ptr<Relay>, OwnedSocket>> Create(
      std::unique_ptr<Stream> stream);

  // Forwards bytes without blocking, up to a limit that keeps one relay from starving others. Once
  // either side has closed and its last bytes have been forwarded, returns Unavailable, with the
  // reason. Returns DataLoss if TLS detects tampering.
  absl::Status Advance();
  // Appends the events to poll() for before the next Advance.
  void AddPolled(std::vector<pollfd>* polled) const;
  // Whether Advance stopped at its limit and must be called again without polling.
  bool can_go_on() const { return can_go_on_; }

  const Stream& stream() const { return *stream_; }

 private:
  Relay(std::unique_ptr<Stream> stream, OwnedSocket local)
      : stream_(std::move(stream)), local_(PlainStream(std::move(local))) {}

  // One direction: holds the bytes received from one side and not yet sent to the other.
  struct Buffer {
    std::array<char, size_t{16} << 10> bytes;
    size_t begin = 0, end = 0;
    absl::Status error;  // why this direction has ended; OK if it has not

    bool empty() const { return begin == end; }
    bool has_ended() const { return !error.ok(); }
  };
  static absl::StatusOr<bool> Move(Stream& from, Stream& to, Buffer* buffer);
  static bool Advance(Stream& from, Stream& to, Buffer* buffer);

  const std::unique_ptr<Stream> stream_, local_;
  Buffer inbound_, outbound_;
  bool can_go_on_ = true;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_RELAY_H_
