// SPDX-License-Identifier: Apache-2.0
//
// The processes of one side of a benchmark, each on a host of its own or all on this machine.
#ifndef MIRRORFLOW_TOOLS_BENCH_WORKER_HOSTS_H_
#define MIRRORFLOW_TOOLS_BENCH_WORKER_HOSTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tools/launch/placement.h"

namespace mirrorflow {

// Hosts see the same files under the same paths, and have the cores of this machine: worker i runs
// on core i of its host. Network namespaces are such hosts.
struct WorkerHosts {
  std::vector<LaunchHost> hosts;  // one for each worker; empty: this machine
  std::vector<std::string> remote_shell;
};

// The hosts that --hosts and --rsh name.
absl::StatusOr<WorkerHosts> HostsOfFlags();

// Checks these flags, for so many workers. Hosts are for several workers, and one for each.
absl::Status CheckHostsFlags(int num_workers);

// Returns the command of each worker. In its words, `{addresses}` stands for HOST:PORT of all
// workers, separated by commas, and `{worker}` for the number of the worker. `ports`: one for each
// worker. InvalidArgument if there are hosts, but not one for each worker.
absl::StatusOr<std::vector<std::vector<std::string>>> CommandsOfWorkers(
    absl::Span<const std::string> command, absl::Span<const int> ports, const WorkerHosts& hosts);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_WORKER_HOSTS_H_
