// SPDX-License-Identifier: Apache-2.0
//
// The local devices of a strategy, by their names.
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

// InvalidArgument for an unknown name, or an error that says why the device cannot be used.
absl::Status CheckDevice(absl::string_view name);

// Returns the ordinals of the devices if they are GPUs; empty if they are CPUs. InvalidArgument for
// a mix of both kinds, and for GPUs of which some but not all are equal.
absl::StatusOr<std::vector<int>> GpusOf(absl::Span<const std::string> devices);

// This worker among those of its host, as far as that is known.
struct LocalWorker {
  int count = 1;
  std::optional<int> index = std::nullopt;
};

// Returns `devices` after checking them. Without any, returns `num_cpu_replicas` CPUs; without that
// number, GPUs or, if there are none, one CPU per core. The workers of a host divide its GPUs and
// cores evenly, unless their launcher has done so: then each sees only its own cores, or fewer GPUs
// than there are workers. InvalidArgument if the GPUs cannot be divided.
absl::StatusOr<std::vector<std::string>> ChooseDevices(std::vector<std::string> devices,
                                                       std::optional<int> num_cpu_replicas,
                                                       const LocalWorker& worker = {});

struct DeviceOptions {
  GpuOptions gpu = {};
  AllocateFn cpu_memory = nullptr;
};

// Returns a backend with the devices, kernels and compiler; its topology and connection are empty.
absl::StatusOr<SessionBackend> CreateBackend(absl::Span<const std::string> devices,
                                             const DeviceOptions& options,
                                             const Extensions* extensions);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_STRATEGY_DEVICES_H_
