// SPDX-License-Identifier: Apache-2.0
//
// Stream: one end of a connection that carries bytes in both directions, in order. No call waits.
//
//   while (wanted > 0) {
//     MF_ASSIGN_OR_RETURN(const size_t got, stream->Receive(rest));
//     if (got == 0) poll(stream->fd(), stream->receive_event());
//   }
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_TCP_STREAM_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_TCP_STREAM_H_

#include <poll.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "distribute/collective/tcp/owned_socket.h"

namespace mirrorflow {

class Stream {
 public:
  virtual ~Stream() = default;

  virtual int fd() const = 0;

  // Both move the first bytes of `parts`, and return how many: 0 if none can be moved now. Then the
  // next Send must begin with the same bytes. Unavailable, with the system's reason, if the
  // connection is lost; Receive also if the other end has closed it. Streams that authenticate:
  // PermissionDenied before, DataLoss after the other end has proven itself.
  virtual absl::StatusOr<size_t> Send(absl::Span<const iovec> parts) = 0;
  virtual absl::StatusOr<size_t> Receive(absl::Span<const iovec> parts) = 0;

  // The event that poll() must wait for, on fd(), after a Send or a Receive that returned 0. Only
  // then: bytes that can be received may be in the stream already, and no longer in the socket.
  virtual int16_t send_event() const { return POLLOUT; }
  virtual int16_t receive_event() const { return POLLIN; }

  // Identifies this connection, equally at both ends, once bytes have been received. A process
  // between the ends cannot have the same one with either. Empty if nothing is encrypted.
  virtual std::string binding() const { return ""; }
};

// Sends the bytes unchanged. `socket`: connected.
std::unique_ptr<Stream> PlainStream(OwnedSocket socket);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_TCP_STREAM_H_
