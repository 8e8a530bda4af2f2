// SPDX-License-Identifier: Apache-2.0
//
// Blocking helpers for tests of streams.
#ifndef MIRRORFLOW_TESTS_SUPPORT_STREAMS_H_
#define MIRRORFLOW_TESTS_SUPPORT_STREAMS_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "distribute/collective/tcp/stream.h"
#include "framework/core/owned_socket.h"

namespace mirrorflow {

// Returns the two ends of a connection. Both are non-blocking sockets.
std::pair<OwnedSocket, OwnedSocket> ConnectedSockets();

// Sends `out` and receives `size` bytes at the same time, each in two parts. Returns
// DeadlineExceeded if no byte moves for 20 s.
absl::StatusOr<std::string> ExchangeAll(Stream& stream, absl::string_view out, size_t size);
absl::Status SendAll(Stream& stream, absl::string_view bytes);
absl::StatusOr<std::string> ReceiveAll(Stream& stream, size_t size);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_STREAMS_H_
