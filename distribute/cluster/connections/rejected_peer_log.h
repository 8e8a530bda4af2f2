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

// Returns the network of a peer, written as in ConnectionListener::OnConnection, that one stranger
// can be assumed to control: the IPv4 address, or the /64 of the IPv6 address.
std::string NetworkOf(absl::string_view peer);

// Logs refused callers, such as port scanners: at most one line a minute for each NetworkOf, so
// that strangers cannot fill the log. Thread-safe.
class RejectedPeerLog {
 public:
  // Lines begin with `service`.
  explicit RejectedPeerLog(std::string service) : service_(std::move(service)) {}

  // Logs what the peer, written as in ConnectionListener::OnConnection, did.
  void Log(const std::string& peer, absl::string_view what);

 private:
  const std::string service_;
  Mutex mu_;
  std::map<std::string, MonotonicTime> last_ ABSL_GUARDED_BY(mu_);  // time of last line, by network
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_REJECTED_PEER_LOG_H_
