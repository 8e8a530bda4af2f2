// SPDX-License-Identifier: Apache-2.0
//
// Where `mirrorflow launch` starts its workers, and the variables that it sets for each worker.
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

// The most workers that a job can have.
inline constexpr int kMaxWorkers = 4096;

struct LaunchHost {
  std::string name;     // name for the remote shell; empty: this machine
  std::string address;  // address where workers on other hosts reach it
  int slots = 1;        // the most workers that run on it
};

// The hosts of a job's workers, and the words of a command that runs another command on a host.
struct WorkerHosts {
  std::vector<LaunchHost> hosts;  // empty for this machine only
  std::vector<std::string> remote_shell;
};

struct Placement {
  LaunchHost host;
  int local_rank = 0;  // index among the host's workers
  int local_size = 1;
};

// Parses --hosts: NAME[=ADDRESS][:SLOTS],…, with brackets around an address that contains colons.
// Returns InvalidArgument for anything else and for a host that is named twice.
absl::StatusOr<std::vector<LaunchHost>> ParseHosts(absl::Span<const std::string> hosts);

// Returns HOST:PORT, with brackets around an address that contains colons.
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

// How many workers a job can have.
struct WorkerCount {
  int least = 1;
  int most = 1;
};
// Parses -n: N or MIN:MAX. Returns InvalidArgument for anything else.
absl::StatusOr<WorkerCount> ParseWorkerCount(absl::string_view text);

// Fills the hosts in order. Without hosts, all workers are on this machine. If `num_workers` is not
// set, all slots are used. Returns InvalidArgument if there are not enough slots.
absl::StatusOr<std::vector<Placement>> PlaceWorkers(std::vector<LaunchHost> hosts,
                                                    std::optional<int> num_workers);

// Returns the variables that tell worker `index` about its cluster, for Mirrorflow, PyTorch and
// TensorFlow programs. `ports` are free on the host of worker 0: one for the coordination service,
// one for MASTER_PORT, and one for each worker.
std::map<std::string, std::string> VariablesOfWorker(absl::Span<const Placement> workers, int index,
                                                     absl::Span<const int> ports);
// Returns how many ports VariablesOfWorker needs.
int NumPorts(int num_workers);
// Returns distinct TCP ports of this host that are free at the time of the call.
absl::StatusOr<std::vector<int>> FreePorts(int count);

// Returns the GPU of worker `local_rank` on its host if each worker has one GPU. `visible` is the
// value of CUDA_VISIBLE_DEVICES, or empty.
std::string GpuOfWorker(int local_rank, absl::string_view visible);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_LAUNCH_PLACEMENT_H_
