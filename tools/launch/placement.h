// SPDX-License-Identifier: Apache-2.0
//
// Where `mirrorflow launch` starts its workers, and what it tells each of them.
#ifndef MIRRORFLOW_TOOLS_LAUNCH_PLACEMENT_H_
#define MIRRORFLOW_TOOLS_LAUNCH_PLACEMENT_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace mirrorflow {

// The most workers of a job.
inline constexpr int kMaxWorkers = 4096;

struct LaunchHost {
  std::string name;     // for the remote shell; empty: this machine
  std::string address;  // at which the workers of other hosts reach it
  int slots = 1;        // the most workers that it gets
};

// The hosts of a job's workers, and the words of the command that runs another one on a host.
struct WorkerHosts {
  std::vector<LaunchHost> hosts;  // empty: this machine
  std::vector<std::string> remote_shell;
};

struct Placement {
  LaunchHost host;
  int local_rank = 0;  // among the workers of the host
  int local_size = 1;
};

// From --hosts, NAME[=ADDRESS][:SLOTS],…; an address that contains colons is in brackets.
// InvalidArgument for anything else, and for a host that is named twice.
absl::StatusOr<std::vector<LaunchHost>> ParseHosts(absl::Span<const std::string> hosts);

// HOST:PORT; an address that contains colons is in brackets.
std::string AddressOf(const LaunchHost& host, int port);

// Returns the path of this program's file.
absl::StatusOr<std::string> ThisProgram();
// Returns the words of a command line that runs `command` on the host: on this machine, `command`
// itself; elsewhere, the words of the remote shell, with the host's name in place of `{host}`, and
// then `command`, quoted for a POSIX shell. Words without special characters stay unquoted, because
// some remote shells (`ip netns exec`) run their words without a shell.
std::vector<std::string> CommandOnHost(const LaunchHost& host,
                                       absl::Span<const std::string> remote_shell,
                                       std::vector<std::string> command);

// How many workers a job may have.
struct WorkerCount {
  int least = 1;
  int most = 1;
};
// From -n, N or MIN:MAX. InvalidArgument for anything else.
absl::StatusOr<WorkerCount> ParseWorkerCount(absl::string_view text);

// Fills the hosts in order. Without hosts, all workers are on this machine. `num_workers`: the
// number of slots if it is not set. InvalidArgument if there are not enough slots.
absl::StatusOr<std::vector<Placement>> PlaceWorkers(std::vector<LaunchHost> hosts,
                                                    std::optional<int> num_workers);

// The placements of workers on these hosts, in this order. A host is there once for each of its
// workers.
std::vector<Placement> RankOnHosts(std::vector<LaunchHost> host_of_worker);

// The variables that tell worker `index` about its cluster, for programs of this framework,
// PyTorch and TensorFlow. `ports` are free on the host of worker 0: one for the coordination
// service, one for MASTER_PORT, and one for each worker.
std::map<std::string, std::string> VariablesOfWorker(absl::Span<const Placement> workers, int index,
                                                     absl::Span<const int> ports);
// How many ports that are.
int NumPorts(int num_workers);
// Returns different TCP ports of this host, which are free at the time of the call.
absl::StatusOr<std::vector<int>> FreePorts(int count);

// The device that worker `local_rank` of a host uses, if each has one GPU. `visible`: the value of
// CUDA_VISIBLE_DEVICES, or empty.
std::string GpuOfWorker(int local_rank, absl::string_view visible);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_LAUNCH_PLACEMENT_H_
