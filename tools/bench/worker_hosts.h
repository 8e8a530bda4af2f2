// SPDX-License-Identifier: Apache-2.0
//
// The hosts of a benchmark's worker processes: a separate host for each, or this machine for all.
// Hosts must see the same files under the same paths and have the same cores as this machine:
// worker i runs on core i of its host. Network namespaces satisfy these requirements.
#ifndef MIRRORFLOW_TOOLS_BENCH_WORKER_HOSTS_H_
#define MIRRORFLOW_TOOLS_BENCH_WORKER_HOSTS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tools/launch/placement.h"

namespace mirrorflow {

// Checks --hosts and --rsh. Hosts require several workers, each on a separate host.
absl::Status CheckHostsFlags(int num_workers);

// Returns the command of each worker. In the words of `command`, `{addresses}` stands for the
// HOST:PORT of all workers, separated by commas, and `{worker}` for the worker's number. `ports`
// has one port per worker. If `hosts` is not empty, returns InvalidArgument unless it contains one
// host, with one slot, for each worker.
absl::StatusOr<std::vector<std::vector<std::string>>> CommandsOfWorkers(
    absl::Span<const std::string> command, absl::Span<const int> ports, const WorkerHosts& hosts);

// The bandwidth limit of the link between two namespaces, in each direction.
struct Link {
  const char* rate;  // as an argument of tools/netns
  const char* name;
};
inline constexpr Link kVirtualEthernet = {"none", "veth"}, k8Gbit = {"8gbit", "8 Gbit/s"},
                      k2Gbit = {"2gbit", "2 Gbit/s"};

// Two network namespaces that serve as the hosts of two workers. The program tools/netns creates
// them; the destructor deletes them.
class NetworkNamespaces {
 public:
  // Returns Unavailable, with the reason, if they cannot be created.
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

#endif  // MIRRORFLOW_TOOLS_BENCH_WORKER_HOSTS_H_
