// SPDX-License-Identifier: Apache-2.0
//
// Checks device names, chooses a strategy's local devices, and creates them.
#ifndef MIRRORFLOW_DISTRIBUTE_STRATEGY_DEVICES_H_
#define MIRRORFLOW_DISTRIBUTE_STRATEGY_DEVICES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/session/session_backend.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cuda/gpu.h"

namespace mirrorflow {

class Extensions;

// Returns InvalidArgument for an unknown name, or an error that says why the device cannot be used.
absl::Status CheckDevice(absl::string_view name);

// Returns the ordinals of `devices` if they are GPUs, and an empty vector if they are CPUs. Returns
// InvalidArgument for a mix of both kinds, and if some but not all of the GPUs are the same.
absl::StatusOr<std::vector<int>> GpusOf(absl::Span<const std::string> devices);

// The number of workers on this host and, if known, this worker's index among them.
struct LocalWorker {
  int count = 1;
  std::optional<int> index = std::nullopt;
};

// A number of CPU replicas, and how many threads each has.
struct CpuReplicas {
  int replicas = 1;
  int threads_per_replica = 1;
};
// Returns the default for a worker with `cores` cores. Up to 16 cores run one single-threaded
// replica each. With more, there are 9 to 16 replicas with equally many threads; the count is the
// one that leaves the fewest cores idle.
CpuReplicas DefaultCpuReplicas(int cores);

struct LocalDevices {
  std::vector<std::string> names;
  int threads_per_replica = 1;  // CPU replicas only
};

// Returns `devices` after checking them. If it is empty, returns `num_cpu_replicas` CPUs; if that
// is also unset, returns GPUs or, without a GPU, DefaultCpuReplicas. If only `threads_per_replica`
// is set, the number of replicas is the number of cores divided by it, clamped to 1 to 16. If it is
// unset, replicas that the caller specified have one thread each. The workers on a host divide its
// GPUs and cores evenly, unless the launcher has already done so: each worker then sees only its
// own cores, or fewer GPUs than there are workers. Returns InvalidArgument if the GPUs cannot be
// divided evenly.
absl::StatusOr<LocalDevices> ChooseDevices(std::vector<std::string> devices,
                                           std::optional<int> num_cpu_replicas,
                                           std::optional<int> threads_per_replica,
                                           const LocalWorker& worker = {});

struct DeviceOptions {
  GpuOptions gpu = {};
  AllocateFn cpu_memory = nullptr;
  int cpu_threads = 1;  // per CPU replica
};

// Returns a backend with devices, kernels and compiler. The caller adds the topology and the
// function that connects the replicas.
absl::StatusOr<SessionBackend> CreateBackend(absl::Span<const std::string> devices,
                                             const DeviceOptions& options,
                                             const Extensions* extensions);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_STRATEGY_DEVICES_H_
