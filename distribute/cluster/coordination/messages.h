// SPDX-License-Identifier: Apache-2.0
//
// Operations on messages of the coordination service that both ends need: signing and checking
// them, and their deadlines.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_MESSAGES_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "distribute/cluster/coordination/coordination.pb.h"
#include "framework/core/monotonic_time.h"

namespace mirrorflow {

// Both ends check a silent connection this often, and wait as long for the answer.
inline constexpr int kKeepaliveMilliseconds = 10000;
// How long a process may take to reconnect, at most a quarter of the heartbeat timeout. A closed
// connection usually means that its process has died, which the other workers must learn soon.
inline constexpr absl::Duration kLongestReturn = absl::Milliseconds(500);
// The largest message, and the largest value that one Request carries.
inline constexpr int kMaxMessageBytes = 128 << 10;
inline constexpr size_t kMaxValueBytes = size_t{64} << 10;

enum class Role { kWorker, kServer };

// `worker 1 (process 77 on host a)`
std::string NameOf(const coordination::Member& member);

void Sign(absl::string_view key, Role role, coordination::Signed* message);
bool HasValidMac(absl::string_view key, Role role, const coordination::Signed& message);

// Deadlines travel as the time that is left, because clocks differ.
int64_t MillisecondsUntil(MonotonicTime deadline);
MonotonicTime DeadlineIn(int64_t milliseconds);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_MESSAGES_H_
