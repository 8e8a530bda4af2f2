// SPDX-License-Identifier: Apache-2.0
#include "distribute/strategy/devices.h"

#include <algorithm>
#include <memory>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "distribute/all_kernels.h"
#include "distribute/pipeline.h"
#include "distribute/strategy/extensions.h"
#include "framework/core/log.h"
#include "framework/core/status.h"
#include "kernels/cpu/cpu_device.h"
#include "ops/registry.h"

namespace mirrorflow {
namespace {

// On 8 to 128 cores, `mirrorflow explain --cores` predicts the shortest steps for 8 to 32 replicas
// (docs/benchmarks.md, "Replicas and threads").
constexpr int kMaxDefaultCpuReplicas = 16;
// A larger number is assumed to be a mistake, because each replica has its own threads.
constexpr int kMaxReplicas = 1024;

struct DeviceName {
  bool is_gpu;
  int index = 0;
};

absl::StatusOr<DeviceName> ParseDevice(absl::string_view name) {
  DeviceName parsed{.is_gpu = absl::StartsWith(name, "GPU")};
  if (name == "GPU" || name == "CPU") return parsed;  // index 0
  const bool known = absl::StartsWith(name, "GPU:") || absl::StartsWith(name, "CPU:");
  if (known && absl::SimpleAtoi(name.substr(4), &parsed.index) && parsed.index >= 0) return parsed;
  return absl::InvalidArgumentError(
      absl::StrCat("device '", name, "': expected CPU:0, CPU:1, … or GPU:0, GPU:1, …"));
}

absl::StatusOr<std::unique_ptr<Device>> CreateDevice(absl::string_view name,
                                                     const DeviceOptions& options) {
  MF_RETURN_IF_ERROR(CheckDevice(name));
  MF_ASSIGN_OR_RETURN(const DeviceName parsed, ParseDevice(name));
  return parsed.is_gpu ? CreateGpu(parsed.index, options.gpu)
                       : CreateCpuDevice(parsed.index, options.cpu_memory, options.cpu_threads);
}

// Returns the names of the GPUs that this worker uses by default; empty if it has none.
absl::StatusOr<std::vector<std::string>> OwnGpus(const LocalWorker& worker) {
  MF_ASSIGN_OR_RETURN(const int num_gpus, NumGpus());
  // Users of a CUDA build expect GPUs, so explain why none is used.
  if (num_gpus == 0 && BuiltWithCuda()) {
    LogWarning(absl::StrCat("no GPU (", WhyNoGpus(), "); using CPU replicas"));
  }
  int first = 0, count = num_gpus;
  if (worker.count > 1 && num_gpus >= worker.count) {
    if (num_gpus % worker.count != 0 || !worker.index.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("devices: the ", worker.count, " workers on this host cannot divide its ",
                       num_gpus, " GPUs: ",
                       worker.index.has_value() ? "each must have the same number"
                                                : "the index of this worker on the host is unknown",
                       "; name this worker's devices, or set CUDA_VISIBLE_DEVICES"));
    }
    count = num_gpus / worker.count;
    first = *worker.index * count;
  }
  std::vector<std::string> devices;
  for (int i = first; i < first + count; ++i) devices.push_back(absl::StrCat("GPU:", i));
  return devices;
}

}  // namespace

absl::Status CheckDevice(absl::string_view name) {
  MF_ASSIGN_OR_RETURN(const DeviceName parsed, ParseDevice(name));
  return parsed.is_gpu ? Annotate(CheckGpu(parsed.index), absl::StrCat("device '", name, "'"))
                       : absl::OkStatus();
}

absl::StatusOr<std::vector<int>> GpusOf(absl::Span<const std::string> devices) {
  std::vector<int> gpus;
  for (const std::string& name : devices) {
    MF_ASSIGN_OR_RETURN(const DeviceName device, ParseDevice(name));
    if (device.is_gpu) gpus.push_back(device.index);
  }
  if (!gpus.empty() && gpus.size() < devices.size()) {
    return absl::InvalidArgumentError(absl::StrCat("devices: expected only GPUs or only CPUs, got ",
                                                   absl::StrJoin(devices, ", ")));
  }
  const std::set<int> different(gpus.begin(), gpus.end());
  if (different.size() > 1 && different.size() < gpus.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("devices: expected distinct GPUs, or the same GPU for all replicas "
                     "(logical GPUs), got ",
                     absl::StrJoin(devices, ", ")));
  }
  return gpus;
}

CpuReplicas DefaultCpuReplicas(int cores) {
  CpuReplicas best;
  const int most = std::clamp(cores, 1, kMaxDefaultCpuReplicas);
  for (int replicas = most / 2 + 1; replicas <= most; ++replicas) {
    const int threads = std::max(cores / replicas, 1);
    if (replicas * threads >= best.replicas * best.threads_per_replica) best = {replicas, threads};
  }
  return best;
}

absl::StatusOr<LocalDevices> ChooseDevices(std::vector<std::string> devices,
                                           std::optional<int> num_cpu_replicas,
                                           std::optional<int> threads_per_replica,
                                           const LocalWorker& worker) {
  LocalDevices chosen = {.threads_per_replica = threads_per_replica.value_or(1)};
  if (devices.empty() && !num_cpu_replicas.has_value()) {
    MF_ASSIGN_OR_RETURN(devices, OwnGpus(worker));
  }
  if (devices.empty()) {
    const int own_cores =
        MayUseAllCores() ? NumUsableCores() / std::max(worker.count, 1) : NumUsableCores();
    const CpuReplicas by_default = DefaultCpuReplicas(own_cores);
    if (!num_cpu_replicas.has_value() && !threads_per_replica.has_value()) {
      num_cpu_replicas = by_default.replicas;
      chosen.threads_per_replica = by_default.threads_per_replica;
    }
    const int replicas = num_cpu_replicas.value_or(
        std::clamp(own_cores / std::max(chosen.threads_per_replica, 1), 1, kMaxDefaultCpuReplicas));
    if (replicas < 1 || replicas > kMaxReplicas) {
      return absl::InvalidArgumentError(absl::StrCat(
          "num_cpu_replicas out of range; expected 1 to ", kMaxReplicas, ", got ", replicas));
    }
    for (int i = 0; i < replicas; ++i) devices.push_back(absl::StrCat("CPU:", i));
  }
  MF_RETURN_IF_ERROR(GpusOf(devices).status());
  for (const std::string& device : devices) MF_RETURN_IF_ERROR(CheckDevice(device));
  chosen.names = std::move(devices);
  return chosen;
}

absl::StatusOr<SessionBackend> CreateBackend(absl::Span<const std::string> devices,
                                             const DeviceOptions& options,
                                             const Extensions* extensions) {
  SessionBackend backend;
  for (const std::string& name : devices) {
    MF_ASSIGN_OR_RETURN(backend.devices.emplace_back(), CreateDevice(name, options));
  }
  backend.ops = extensions != nullptr ? &extensions->ops() : &AllOps();
  backend.kernels = extensions != nullptr ? &extensions->kernels() : &AllKernels();
  if (extensions != nullptr) backend.passes = extensions->passes();
  backend.compile = CompileProgram;
  backend.compile_plan = CompilePlan;
  return backend;
}

}  // namespace mirrorflow
