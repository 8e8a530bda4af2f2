// SPDX-License-Identifier: Apache-2.0
#include "distribute/strategy/strategy.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "distribute/all_kernels.h"
#include "distribute/collective/device_copy/device_copy_communicator.h"
#include "distribute/collective/in_process.h"
#include "distribute/collective/nccl/nccl_communicator.h"
#include "distribute/pipeline.h"
#include "framework/core/status.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cuda/gpu.h"
#include "ops/registry.h"

namespace mirrorflow {
namespace {

constexpr int kMaxDefaultCpuReplicas = 8;
// More threads than this on one host is a mistake, not a wish.
constexpr int kMaxReplicas = 1024;

struct DeviceName {
  bool is_gpu;
  int index = 0;
};

absl::StatusOr<DeviceName> ParseDevice(absl::string_view name) {
  DeviceName parsed{.is_gpu = absl::StartsWith(name, "GPU")};
  if (name == "GPU" || name == "CPU") return parsed;  // the first
  const bool known = absl::StartsWith(name, "GPU:") || absl::StartsWith(name, "CPU:");
  if (known && absl::SimpleAtoi(name.substr(4), &parsed.index) && parsed.index >= 0) return parsed;
  return absl::InvalidArgumentError(
      absl::StrCat("device '", name, "': expected CPU:0, CPU:1, … or GPU:0, GPU:1, …"));
}

absl::Status CheckDevice(absl::string_view name) {
  MF_ASSIGN_OR_RETURN(const DeviceName parsed, ParseDevice(name));
  return parsed.is_gpu ? Annotate(CheckGpu(parsed.index), absl::StrCat("device '", name, "'"))
                       : absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Device>> CreateDevice(absl::string_view name,
                                                     const GpuOptions& options) {
  MF_RETURN_IF_ERROR(CheckDevice(name));
  MF_ASSIGN_OR_RETURN(const DeviceName parsed, ParseDevice(name));
  return parsed.is_gpu ? CreateGpu(parsed.index, options) : CreateCpuDevice(parsed.index);
}

// The GPUs of a mesh, by number; empty if it is one of CPUs. InvalidArgument for a mesh of both,
// and for GPUs of which some but not all are the same.
absl::StatusOr<std::vector<int>> GpusOf(const std::vector<std::string>& devices) {
  std::vector<int> gpus;
  for (const std::string& name : devices) {
    MF_ASSIGN_OR_RETURN(const DeviceName device, ParseDevice(name));
    if (device.is_gpu) gpus.push_back(device.index);
  }
  if (!gpus.empty() && gpus.size() < devices.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("devices: expected GPUs or CPUs alone, got ", absl::StrJoin(devices, ", ")));
  }
  const std::set<int> different(gpus.begin(), gpus.end());
  if (different.size() > 1 && different.size() < gpus.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("devices: expected GPUs that all differ, or one GPU for all (logical GPUs), "
                     "got ",
                     absl::StrJoin(devices, ", ")));
  }
  return gpus;
}

// What MirroredStrategy runs on if nothing is asked for: every GPU, else nothing.
absl::StatusOr<std::vector<std::string>> AllGpus() {
  std::vector<std::string> devices;
  MF_ASSIGN_OR_RETURN(const int num_gpus, NumGpus());
  for (int i = 0; i < num_gpus; ++i) devices.push_back(absl::StrCat("GPU:", i));
  // Who built for GPUs expects them.
  if (devices.empty() && BuiltWithCuda()) {
    std::fprintf(stderr, "mirrorflow: no GPU (%s); CPU replicas instead\n", WhyNoGpus().c_str());
  }
  return devices;
}

absl::StatusOr<SessionBackend> BackendFor(const Mesh& mesh, const GpuOptions& options) {
  SessionBackend backend;
  for (const std::string& name : mesh.devices) {
    MF_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, CreateDevice(name, options));
    backend.devices.push_back(std::move(device));
  }
  backend.ops = &AllOps();
  backend.kernels = &AllKernels();
  backend.compile = CompileProgram;
  backend.compile_plan = CompilePlan;
  backend.world_size = mesh.world_size;
  backend.first_rank = mesh.first_rank;
  return backend;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Session>> Strategy::NewSession(const Graph& graph) const {
  MF_RETURN_IF_ERROR(graph.status());
  if (requires_scope()) {
    for (const Node* node : graph.Nodes()) {
      if (node->op().role != OpRole::kVariable || !node->has_attr(kOutsideScopeAttr)) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          OpAndName(*node),
          ": the variable was created outside the strategy's scope; expected `auto mirrored = "
          "strategy->scope();` around the code that creates it"));
    }
  }
  MF_ASSIGN_OR_RETURN(SessionBackend backend, MakeBackend());
  return Session::Create(graph, std::move(backend), session_options_);
}

OneDeviceStrategy::OneDeviceStrategy(const Options& options)
    : Strategy({.seed = options.seed,
                .step_timeout = options.step_timeout,
                .max_bytes = options.max_bytes,
                .compile = options.compile}),
      capture_steps_(options.capture_steps) {
  mesh_.devices = {options.device};
}

absl::StatusOr<std::unique_ptr<OneDeviceStrategy>> OneDeviceStrategy::Create(
    const Options& options) {
  MF_RETURN_IF_ERROR(CheckDevice(options.device));
  return std::unique_ptr<OneDeviceStrategy>(new OneDeviceStrategy(options));
}

absl::StatusOr<std::unique_ptr<OneDeviceStrategy>> OneDeviceStrategy::Create() {
  return Create(Options());
}

absl::StatusOr<SessionBackend> OneDeviceStrategy::MakeBackend() const {
  return BackendFor(mesh_, {.capture_steps = capture_steps_});
}

MirroredStrategy::MirroredStrategy(const Options& options, Mesh mesh)
    : Strategy({.seed = options.seed,
                .bucket_bytes = options.bucket_bytes,
                .step_timeout = options.step_timeout,
                .pin_threads = options.pin_threads,
                .max_bytes = options.max_bytes,
                .compile = options.compile}),
      options_(options),
      mesh_(std::move(mesh)) {}

absl::StatusOr<std::unique_ptr<MirroredStrategy>> MirroredStrategy::Create(const Options& options) {
  Mesh mesh;
  mesh.devices = options.devices;
  if (mesh.devices.empty() && !options.num_cpu_replicas.has_value()) {
    MF_ASSIGN_OR_RETURN(mesh.devices, AllGpus());
  }
  if (mesh.devices.empty()) {
    const int replicas =
        options.num_cpu_replicas.value_or(std::min(NumUsableCores(), kMaxDefaultCpuReplicas));
    if (replicas < 1 || replicas > kMaxReplicas) {
      return absl::InvalidArgumentError(
          absl::StrCat("MirroredStrategy: num_cpu_replicas out of range; expected 1 to ",
                       kMaxReplicas, ", got ", replicas));
    }
    for (int i = 0; i < replicas; ++i) mesh.devices.push_back(absl::StrCat("CPU:", i));
  }
  MF_RETURN_IF_ERROR(GpusOf(mesh.devices).status());
  for (const std::string& device : mesh.devices) {
    MF_RETURN_IF_ERROR(CheckDevice(device));
  }
  mesh.world_size = static_cast<int>(mesh.devices.size());
  return std::unique_ptr<MirroredStrategy>(new MirroredStrategy(options, std::move(mesh)));
}

absl::StatusOr<std::unique_ptr<MirroredStrategy>> MirroredStrategy::Create() {
  return Create(Options());
}

absl::StatusOr<SessionBackend> MirroredStrategy::MakeBackend() const {
  MF_ASSIGN_OR_RETURN(const std::vector<int> gpus, GpusOf(mesh_.devices));
  // Where all are the same GPU, which NCCL does not serve.
  const bool logical = gpus.size() > 1 && gpus[0] == gpus[1];
  const bool by_nccl = gpus.size() > 1 && !logical;
  MF_ASSIGN_OR_RETURN(SessionBackend backend,
                      BackendFor(mesh_, {.capture_steps = options_.capture_steps,
                                         .collective_memory = by_nccl ? NcclMemory() : nullptr}));
  if (!gpus.empty()) {
    const DeviceCopyOptions device_copy{.timeout = options_.collective_timeout};
    const NcclOptions nccl{
        .timeout = options_.collective_timeout,
        .can_be_captured = options_.capture_steps && options_.capture_collectives,
        .deterministic = options_.deterministic};
    backend.connect = [gpus, logical, device_copy, nccl] {
      return logical ? CreateDeviceCopyCommunicators(static_cast<int>(gpus.size()), gpus[0],
                                                     device_copy)
                     : CreateNcclCommunicators(gpus, nccl);
    };
    return backend;
  }
  backend.connect = [world_size = mesh_.world_size, timeout = options_.collective_timeout] {
    return CreateInProcessCommunicators(world_size, {.timeout = timeout});
  };
  backend.ranks_share_memory = true;
  return backend;
}

}  // namespace mirrorflow
