// SPDX-License-Identifier: Apache-2.0
//
// The processes of one side of a benchmark, each on a host of its own or all on this machine. Hosts
// see the same files under the same paths, and have the cores of this machine: worker i runs on
// core i of its host. Network namespaces are such hosts.
#ifndef MIRRORFLOW_TOOLS_BENCH_WORKER_HOSTS_H_
#define MIRRORFLOW_TOOLS_BENCH_WORKER_HOSTS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tools/launch/placement.h"

namespace mirrorflow {

// Checks --hosts and --rsh. Only several workers can have hosts; each worker then needs its own.
absl::Status CheckHostsFlags(int num_workers);

// Returns the command of each worker. In its words, `{addresses}` stands for HOST:PORT of all
// workers, separated by commas, and `{worker}` for the number of the worker. `ports`: one for each
// worker. InvalidArgument if there are hosts, but not one for each worker, or one with more slots.
absl::StatusOr<std::vector<std::vector<std::string>>> CommandsOfWorkers(
    absl::Span<const std::string> command, absl::Span<const int> ports, const WorkerHosts& hosts);

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

#endif  // MIRRORFLOW_TOOLS_BENCH_WORKER_HOSTS_H_
