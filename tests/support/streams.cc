// SPDX-License-Identifier: Apache-2.0
#include "tests/support/streams.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include "framework/core/owned_socket.h"
#include "framework/core/status.h"
#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

constexpr int kPatienceMs = 20000;

// Calls move(parts) with the remaining bytes, split after a third of the total. Returns whether it
// moved any.
template <typename Move>
absl::StatusOr<bool> MoveRest(char* bytes, size_t size, size_t* done, const Move& move) {
  const size_t middle = std::max(size / 3, *done);
  const iovec parts[] = {{bytes + *done, middle - *done}, {bytes + middle, size - middle}};
  MF_ASSIGN_OR_RETURN(const size_t count, move(parts));
  *done += count;
  return count > 0;
}

}  // namespace

std::pair<OwnedSocket, OwnedSocket> ConnectedSockets() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  return {OwnedSocket(ends[0]), OwnedSocket(ends[1])};
}

absl::StatusOr<std::string> ExchangeAll(Stream& stream, absl::string_view out, size_t size) {
  std::string in(size, '\0');
  for (size_t sent = 0, got = 0; sent < out.size() || got < size;) {
    int16_t events = 0;
    bool moved = false;
    if (sent < out.size()) {
      MF_ASSIGN_OR_RETURN(moved, MoveRest(const_cast<char*>(out.data()), out.size(), &sent,
                                          [&](const auto& parts) { return stream.Send(parts); }));
      events = stream.send_event();
    }
    if (got < size) {
      MF_ASSIGN_OR_RETURN(const bool received,
                          MoveRest(in.data(), size, &got,
                                   [&](const auto& parts) { return stream.Receive(parts); }));
      moved |= received;
      events = static_cast<int16_t>(events | stream.receive_event());
    }
    if (moved) continue;
    pollfd wanted = {.fd = stream.fd(), .events = events, .revents = 0};
    if (poll(&wanted, 1, kPatienceMs) == 0) {
      return absl::DeadlineExceededError("no byte moved on the connection in time");
    }
  }
  return in;
}

absl::Status SendAll(Stream& stream, absl::string_view bytes) {
  return ExchangeAll(stream, bytes, 0).status();
}

absl::StatusOr<std::string> ReceiveAll(Stream& stream, size_t size) {
  return ExchangeAll(stream, "", size);
}

}  // namespace mirrorflow
