// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_STRANGER_LOG_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_STRANGER_LOG_H_

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/core/monotonic_time.h"

namespace mirrorflow {

// Logs refused callers, and connections on which no call comes, such as those of port scanners: at
// most one line a minute for each host, so that strangers cannot fill the log. A peer is written as
// gRPC does, with its port. Thread-safe.
class StrangerLog {
 public:
  // `log` receives the lines, which begin with `service`, and may be null.
  StrangerLog(std::string service, std::function<void(absl::string_view line)> log)
      : service_(std::move(service)), log_(std::move(log)) {}

  // Logs what the peer did.
  void Log(const std::string& peer, absl::string_view what);

  // The peer has connected.
  void Connected(const std::string& peer);
  // A call has come on the peer's connection.
  void Called(const std::string& peer);
  // Logs the connections on which no call has come within 5 s.
  void LogSilent(MonotonicTime now);

 private:
  const std::string service_;
  const std::function<void(absl::string_view line)> log_;
  std::mutex mu_;
  // Guarded by mu_:
  std::map<std::string, MonotonicTime> last_;    // by host: its last line
  std::map<std::string, MonotonicTime> silent_;  // peers without a call: since when
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_STRANGER_LOG_H_
