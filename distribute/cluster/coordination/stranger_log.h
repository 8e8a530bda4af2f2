// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_STRANGER_LOG_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_STRANGER_LOG_H_

#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace mirrorflow {

// Logs refused callers: at most one line a minute for each host, so that strangers cannot fill the
// log. Thread-safe.
class StrangerLog {
 public:
  // `log` receives the lines, and may be null.
  explicit StrangerLog(std::function<void(absl::string_view line)> log) : log_(std::move(log)) {}

  // `peer`: as gRPC writes it, with the port.
  void Log(const std::string& peer, absl::string_view what);

 private:
  const std::function<void(absl::string_view line)> log_;
  std::mutex mu_;
  std::map<std::string, absl::Time> last_;  // by host: its last line; guarded by mu_
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_STRANGER_LOG_H_
