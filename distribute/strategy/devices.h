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

// CPU replicas, each with several threads.
struct CpuReplicas {
  int replicas = 1;
  int threads_per_replica = 1;
};
// Returns how a worker with `cores` cores uses them by default: one replica per core, or 9 to
// 16 replicas of several threads, whichever number leaves the fewest cores unused.
CpuReplicas DefaultCpuReplicas(int cores);

struct LocalDevices {
  std::vector<std::string> names;
  int threads_per_replica = 1;  // on CPUs
};

// Returns `devices` after checking them. If there are none, returns `num_cpu_replicas` CPUs; if
// that is also unset, returns GPUs or, without a GPU, DefaultCpuReplicas. If only
// `threads_per_replica` is set, there is one replica for that many cores, but at least 1 and at
// most 16; if it is unset, replicas whose number was given have one thread. The workers on a host
// divide its GPUs and cores evenly, unless their launcher has already done so: each worker then
// sees only its own cores, or fewer GPUs than there are workers. Returns InvalidArgument if the
// GPUs cannot be divided evenly.
absl::StatusOr<LocalDevices> ChooseDevices(std::vector<std::string> devices,
                                           std::optional<int> num_cpu_replicas,
                                           std::optional<int> threads_per_replica,
                                           const LocalWorker& worker = {});

struct DeviceOptions {
  GpuOptions gpu = {};
  AllocateFn cpu_memory = nullptr;
  int cpu_threads = 1;  // that run a replica on a CPU
};

// Returns a backend with devices, kernels and compiler. The caller adds the topology and the
// function that connects the replicas.
absl::StatusOr<SessionBackend> CreateBackend(absl::Span<const std::string> devices,
                                             const DeviceOptions& options,
                                             const Extensions* extensions);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_STRATEGY_DEVICES_H_
