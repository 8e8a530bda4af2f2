// SPDX-License-Identifier: Apache-2.0
#include "distribute/strategy/mirrored_backend.h"

#include "absl/strings/str_cat.h"
#include "distribute/collective/device_copy/device_copy_communicator.h"
#include "distribute/collective/nccl/nccl_communicator.h"
#include "distribute/collective/team_communicator.h"
#include "distribute/strategy/devices.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

// Returns whether these are logical GPUs, which NCCL does not support: several replicas on one GPU.
bool AreLogical(absl::Span<const int> gpus) { return gpus.size() > 1 && gpus[0] == gpus[1]; }

}  // namespace

absl::Status CheckGpuReplicas(absl::Span<const int> gpus, int num_workers) {
  if (AreLogical(gpus)) {
    if (num_workers == 1) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("devices: logical GPUs work only within one worker; expected different GPUs, "
                     "got GPU:",
                     gpus[0], " ", gpus.size(), " times on one of ", num_workers, " workers"));
  }
  return gpus.size() > 1 || num_workers > 1 ? CheckNcclEnvironment() : absl::OkStatus();
}

std::vector<std::string> DevicesOfWorker(const Topology& topology, int worker) {
  std::vector<std::string> devices;
  for (const int rank : topology.RanksOfWorker(worker)) {
    devices.push_back(topology.replicas[rank].device);
  }
  return devices;
}

absl::StatusOr<SessionBackend> CreateMirroredBackend(const Topology& topology,
                                                     const MirroredStrategy::Options& options) {
  MF_ASSIGN_OR_RETURN(const std::vector<int> gpus, GpusOf(topology.devices()));
  if (!gpus.empty()) return CreateGpuBackend(topology, /*worker=*/0, options);
  MF_ASSIGN_OR_RETURN(
      SessionBackend backend,
      CreateBackend(topology.devices(), {.cpu_threads = *options.threads_per_replica},
                    options.extensions));
  backend.topology = topology;
  backend.has_teams = true;
  backend.connect = [timeout = *options.collective_timeout](const Topology& topology,
                                                            absl::Span<const int>, WorkerGroup*,
                                                            uint64_t, MonotonicTime) {
    return CreateTeamCommunicators(topology.world_size(), timeout);
  };
  return backend;
}

absl::StatusOr<SessionBackend> CreateGpuBackend(const Topology& topology, int worker,
                                                const MirroredStrategy::Options& options,
                                                const std::string& network_device) {
  const std::vector<std::string> devices = DevicesOfWorker(topology, worker);
  MF_ASSIGN_OR_RETURN(const std::vector<int> gpus, GpusOf(devices));
  const bool by_nccl = topology.world_size() > 1 && !AreLogical(gpus);
  MF_ASSIGN_OR_RETURN(
      SessionBackend backend,
      CreateBackend(devices,
                    {.gpu = {.capture_steps = options.capture_steps,
                             .collective_memory = by_nccl ? NcclMemory() : nullptr}},
                    options.extensions));
  backend.topology = topology;
  const absl::Duration timeout = *options.collective_timeout;
  if (AreLogical(gpus)) {
    backend.connect = [timeout, gpu = gpus[0]](const Topology& topology, absl::Span<const int>,
                                               WorkerGroup*, uint64_t, MonotonicTime) {
      return CreateDeviceCopyCommunicators(topology.world_size(), gpu, timeout);
    };
    return backend;
  }
  const bool one_gpu_each = topology.world_size() == topology.num_workers();
  const NcclOptions nccl{.timeout = timeout,
                         .can_be_captured = options.capture_steps &&
                                            options.capture_collectives.value_or(one_gpu_each),
                         .deterministic = options.deterministic,
                         .network_device = network_device};
  backend.connect = [gpus, nccl](const Topology& topology, absl::Span<const int> local_ranks,
                                 WorkerGroup* workers, uint64_t, MonotonicTime deadline) {
    return ConnectNccl(topology, local_ranks, gpus, workers, deadline, nccl);
  };
  return backend;
}

}  // namespace mirrorflow
