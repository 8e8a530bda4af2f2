// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_BENCH_NETWORK_NAMESPACES_H_
#define MIRRORFLOW_TOOLS_BENCH_NETWORK_NAMESPACES_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tools/bench/worker_hosts.h"

namespace mirrorflow {

// A limit of the link between two namespaces, in each direction.
struct Link {
  const char* rate;  // of tools/netns
  const char* name;
};
inline constexpr Link kVirtualEthernet = {"none", "veth"}, k8Gbit = {"8gbit", "8 Gbit/s"},
                      k2Gbit = {"2gbit", "2 Gbit/s"};

// Two network namespaces of this process, made by the program tools/netns, as hosts of two
// workers. The destructor deletes them.
class NetworkNamespaces {
 public:
  // Unavailable, with the reason, if they cannot be made.
  static absl::StatusOr<std::unique_ptr<NetworkNamespaces>> Create(const Link& link);
  ~NetworkNamespaces();
  NetworkNamespaces(const NetworkNamespaces&) = delete;
  NetworkNamespaces& operator=(const NetworkNamespaces&) = delete;

  const WorkerHosts& hosts() const { return hosts_; }

 private:
  NetworkNamespaces();
  absl::Status Run(const std::string& command) const;

  WorkerHosts hosts_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_NETWORK_NAMESPACES_H_
