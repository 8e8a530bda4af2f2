// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/connections/relay.h"

#include <sys/socket.h>

#include <cerrno>

#include "framework/core/owned_socket.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"

namespace mirrorflow {
namespace {

// Limits how many buffers are forwarded in each direction before other relays get their turn.
constexpr int kRounds = 8;

}  // namespace

absl::StatusOr<std::pair<std::unique_ptr<Relay>, OwnedSocket>> Relay::Create(
    std::unique_ptr<Stream> stream) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    return NetworkError(errno, "coordination: cannot create a socket pair");
  }
  return std::pair(std::unique_ptr<Relay>(new Relay(std::move(stream), OwnedSocket(ends[0]))),
                   OwnedSocket(ends[1]));
}

// Sends the buffered bytes; if the buffer is empty, receives first. Returns whether any bytes
// moved. Receives only into an empty buffer, so it notices that `from` has closed only after all
// earlier bytes have been sent.
absl::StatusOr<bool> Relay::Move(Stream& from, Stream& to, Buffer* buffer) {
  bool moved = false;
  if (buffer->empty()) {
    const iovec space = {buffer->bytes.data(), buffer->bytes.size()};
    MF_ASSIGN_OR_RETURN(const size_t got, from.Receive({&space, 1}));
    buffer->begin = 0;
    buffer->end = got;
    moved = got > 0;
  }
  if (!buffer->empty()) {
    const iovec rest = {buffer->bytes.data() + buffer->begin, buffer->end - buffer->begin};
    MF_ASSIGN_OR_RETURN(const size_t sent, to.Send({&rest, 1}));
    buffer->begin += sent;
    moved |= sent > 0;
  }
  return moved;
}

// Like Move, but records the first error in the buffer; after that, moves no bytes.
bool Relay::Advance(Stream& from, Stream& to, Buffer* buffer) {
  if (buffer->has_ended()) return false;
  const absl::StatusOr<bool> moved = Move(from, to, buffer);
  buffer->error = moved.status();
  return moved.value_or(false);
}

absl::Status Relay::Advance() {
  can_go_on_ = true;
  for (int round = 0; round < kRounds && can_go_on_; ++round) {
    const bool in = Advance(*stream_, *local_, &inbound_);
    const bool out = Advance(*local_, *stream_, &outbound_);
    can_go_on_ = in || out;
  }
  // When one direction ends, the other still delivers the bytes in flight.
  const bool delivered = !can_go_on_ && (inbound_.has_ended() || inbound_.empty()) &&
                         (outbound_.has_ended() || outbound_.empty());
  if (!delivered) return absl::OkStatus();
  MF_RETURN_IF_ERROR(inbound_.error);
  return outbound_.error;
}

void Relay::AddPolled(std::vector<pollfd>* polled) const {
  const auto add = [&](const Stream& side, const Buffer& received, const Buffer& to_send) {
    const int receive = received.empty() && !received.has_ended() ? side.receive_event() : 0;
    const int send = to_send.empty() || to_send.has_ended() ? 0 : side.send_event();
    // poll() reports a closed connection on every call, even if no events are requested.
    const int events = receive | send;
    polled->push_back(
        {.fd = events == 0 ? -1 : side.fd(), .events = static_cast<int16_t>(events), .revents = 0});
  };
  add(*stream_, inbound_, outbound_);
  add(*local_, outbound_, inbound_);
}

}  // namespace mirrorflow
