// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TESTS_SUPPORT_PROXIED_WORKER_GROUP_H_
#define MIRRORFLOW_TESTS_SUPPORT_PROXIED_WORKER_GROUP_H_

#include <list>
#include <string>
#include <utility>
#include <vector>

#include "distribute/cluster/connections/host_port.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "tests/support/forwarding_worker_group.h"
#include "tests/support/tcp_proxy.h"

namespace mirrorflow {

// Forwards all calls to `group`, but connects this worker to the other workers through proxies. The
// proxies record all data that they forward, and deliver each byte after `delay`.
class ProxiedWorkerGroup final : public ForwardingWorkerGroup {
 public:
  explicit ProxiedWorkerGroup(WorkerGroup& group, absl::Duration delay = absl::ZeroDuration())
      : ForwardingWorkerGroup(group), delay_(delay) {}

  // Returns all bytes that have passed through the proxies.
  std::string captured() {
    std::string all;
    for (TcpProxy& proxy : proxies_) all += proxy.captured();
    return all;
  }

  absl::StatusOr<std::vector<std::string>> AllGather(absl::string_view name, std::string value,
                                                     MonotonicTime deadline) override {
    MF_ASSIGN_OR_RETURN(std::vector<std::string> values,
                        ForwardingWorkerGroup::AllGather(name, std::move(value), deadline));
    if (name != "data addresses") return values;
    for (std::string& text : values) {
      MF_ASSIGN_OR_RETURN(HostPort address, ParseHostPort(text));
      address.port = proxies_.emplace_back(address.port, delay_).port();
      text = address.ToString();
    }
    return values;
  }

 private:
  const absl::Duration delay_;
  std::list<TcpProxy> proxies_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_PROXIED_WORKER_GROUP_H_
