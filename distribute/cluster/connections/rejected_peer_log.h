// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_REJECTED_PEER_LOG_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_REJECTED_PEER_LOG_H_

#include <map>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"

namespace mirrorflow {

// Returns the network of `peer` (in the form of ConnectionListener::OnConnection): its address for
// IPv4, and its /64 network for IPv6. One stranger can be assumed to control all of a network.
std::string NetworkOf(absl::string_view peer);

// Logs refused callers, such as port scanners. Logs at most one line a minute for each network
// (NetworkOf), so strangers cannot fill the log. Thread-safe.
class RejectedPeerLog {
 public:
  // Every line begins with `service`.
  explicit RejectedPeerLog(std::string service) : service_(std::move(service)) {}

  // Logs that `what` happened to `peer` (in the form of ConnectionListener::OnConnection).
  void Log(const std::string& peer, absl::string_view what);

 private:
  const std::string service_;
  Mutex mu_;
  // When the last line was logged, by network.
  std::map<std::string, MonotonicTime> last_ ABSL_GUARDED_BY(mu_);
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_REJECTED_PEER_LOG_H_
