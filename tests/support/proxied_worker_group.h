// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TESTS_SUPPORT_PROXIED_WORKER_GROUP_H_
#define MIRRORFLOW_TESTS_SUPPORT_PROXIED_WORKER_GROUP_H_

#include <list>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "distribute/cluster/connections/host_port.h"
#include "framework/core/status.h"
#include "framework/session/worker_group.h"
#include "tests/support/tcp_proxy.h"

namespace mirrorflow {

// Does what `group` does, but this worker connects to the others through proxies, which see the
// data that it exchanges with them.
class ProxiedWorkerGroup final : public WorkerGroup {
 public:
  explicit ProxiedWorkerGroup(WorkerGroup& group) : group_(group) {}

  // Returns all bytes that have passed through the proxies.
  std::string captured() {
    std::string all;
    for (TcpProxy& proxy : proxies_) all += proxy.captured();
    return all;
  }

  absl::StatusOr<std::vector<std::string>> AllGather(absl::string_view name, std::string value,
                                                     absl::Time deadline) override {
    MF_ASSIGN_OR_RETURN(std::vector<std::string> values,
                        group_.AllGather(name, std::move(value), deadline));
    if (name != "data addresses") return values;
    for (std::string& text : values) {
      MF_ASSIGN_OR_RETURN(HostPort address, ParseHostPort(text));
      address.port = proxies_.emplace_back(address.port).port();
      text = address.ToString();
    }
    return values;
  }

  int worker() const override { return group_.worker(); }
  int num_workers() const override { return group_.num_workers(); }
  absl::StatusOr<uint64_t> Join(absl::Time deadline) override { return group_.Join(deadline); }
  absl::Status Put(absl::string_view key, std::string value, absl::Time deadline) override {
    return group_.Put(key, std::move(value), deadline);
  }
  absl::Status PutForReaders(absl::string_view key, int readers, std::string value,
                             absl::Time deadline) override {
    return group_.PutForReaders(key, readers, std::move(value), deadline);
  }
  absl::StatusOr<std::string> Get(absl::string_view key, absl::Time deadline) override {
    return group_.Get(key, deadline);
  }
  absl::Status ReportFailure(const absl::Status& cause, absl::Time deadline) override {
    return group_.ReportFailure(cause, deadline);
  }
  void OnFailure(std::function<void(const absl::Status&)> call) override {
    group_.OnFailure(std::move(call));
  }

 private:
  WorkerGroup& group_;
  std::list<TcpProxy> proxies_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_PROXIED_WORKER_GROUP_H_
