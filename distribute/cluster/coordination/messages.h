// SPDX-License-Identifier: Apache-2.0
//
// Helpers for coordination messages that the client and the server share: signatures, deadlines,
// and limits.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_MESSAGES_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_MESSAGES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "distribute/cluster/coordination/coordination.pb.h"
#include "framework/core/monotonic_time.h"

namespace mirrorflow {

// A connection breaks if the other host acknowledges nothing for this long. The session survives,
// because only heartbeats decide whether a silent process is lost.
inline constexpr absl::Duration kDeadConnection = absl::Seconds(10);

// Returns how long one end waits for the other to reconnect after their connection was closed. A
// closed connection usually means that the other process has died. `handshake` is the duration of
// the last handshake. Like the time to reconnect, it grows with round-trip time, TLS and load.
inline absl::Duration TimeToReturn(absl::Duration handshake, absl::Duration heartbeat_timeout) {
  return std::min(absl::Seconds(1) + 4 * handshake, heartbeat_timeout);
}

// The maximum size of a message, and of the value that one Request carries.
inline constexpr int kMaxMessageBytes = 128 << 10;
inline constexpr size_t kMaxValueBytes = size_t{64} << 10;

enum class Role { kWorker, kServer };

// Returns `worker 1 (process 77 on node1)`, with the process id and the host's name.
std::string NameOf(const coordination::Member& member);

// Formats a list of workers, each with its address if known: `3 (node3:2222), 4`. Names the first
// ten, and says how many more there are.
std::string FirstOf(absl::Span<const int> workers, absl::Span<const std::string> addresses = {});

// A message body and its digest. Messages to different workers can share a Body.
struct Body {
  explicit Body(std::string bytes);
  const std::string bytes;
  const std::string digest;  // SHA-256
};

// Returns the MAC of a message with this sequence number and body, under a connection's key.
std::string MacOf(absl::string_view key, Role role, uint64_t sequence, const Body& body);
bool HasValidMac(absl::string_view key, Role role, const coordination::Signed& message);

// Convert a deadline to and from the remaining time, which messages carry because the hosts' clocks
// differ.
int64_t MillisecondsUntil(MonotonicTime deadline);
MonotonicTime DeadlineIn(int64_t milliseconds);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_MESSAGES_H_
