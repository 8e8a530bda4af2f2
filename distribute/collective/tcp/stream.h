// SPDX-License-Identifier: Apache-2.0
//
// Stream: one end of a connection that carries bytes in both directions, in order. Calls never
// block.
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

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/core/owned_socket.h"

namespace mirrorflow {

class Stream {
 public:
  virtual ~Stream() = default;

  virtual int fd() const = 0;

  // Both transfer the first bytes of `parts` and return how many: 0 if none can be transferred now.
  // After a Send that returned 0, the next Send must begin with the same bytes. Both return
  // Unavailable, with the system's reason, if the connection is lost. Receive also returns
  // Unavailable if the other end has closed it. Streams that authenticate return PermissionDenied
  // before the other end has proven its identity, and DataLoss after that.
  virtual absl::StatusOr<size_t> Send(absl::Span<const iovec> parts) = 0;
  virtual absl::StatusOr<size_t> Receive(absl::Span<const iovec> parts) = 0;

  // Return the event on fd() that poll() must wait for after a Send or a Receive that returned 0.
  // Do not poll in other cases: received bytes may be in the stream already, and no longer in the
  // socket.
  virtual int16_t send_event() const { return POLLOUT; }
  virtual int16_t receive_event() const { return POLLIN; }

  // Identifies this connection once bytes have been received. Both ends return the same value, and
  // a man in the middle cannot have the same value with either end. Empty for unencrypted streams.
  virtual std::string binding() const { return ""; }
};

// Returns a stream that sends the bytes unchanged. `socket` must be connected.
std::unique_ptr<Stream> PlainStream(OwnedSocket socket);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_TCP_STREAM_H_
