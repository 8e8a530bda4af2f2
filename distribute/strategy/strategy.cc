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
#include "distribute/collective/nccl/nccl_communicator.h"
#include "distribute/collective/team_communicator.h"
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

// The numbers of devices that are GPUs; empty if they are CPUs. InvalidArgument for both kinds
// together, and for GPUs of which some but not all are the same.
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

absl::StatusOr<SessionBackend> BackendFor(const Topology& topology, const GpuOptions& options) {
  SessionBackend backend;
  for (const Topology::Replica& replica : topology.replicas) {
    MF_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, CreateDevice(replica.device, options));
    backend.devices.push_back(std::move(device));
  }
  backend.ops = &AllOps();
  backend.kernels = &AllKernels();
  backend.compile = CompileProgram;
  backend.compile_plan = CompilePlan;
  backend.topology = topology;
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
      capture_steps_(options.capture_steps),
      topology_(Topology::OneWorker({options.device}, /*one_domain=*/true)) {}

absl::StatusOr<std::unique_ptr<OneDeviceStrategy>> OneDeviceStrategy::Create(
    const Options& options) {
  MF_RETURN_IF_ERROR(CheckDevice(options.device));
  return std::unique_ptr<OneDeviceStrategy>(new OneDeviceStrategy(options));
}

absl::StatusOr<std::unique_ptr<OneDeviceStrategy>> OneDeviceStrategy::Create() {
  return Create(Options());
}

absl::StatusOr<SessionBackend> OneDeviceStrategy::MakeBackend() const {
  return BackendFor(topology_, {.capture_steps = capture_steps_});
}

MirroredStrategy::MirroredStrategy(const Options& options, Topology topology)
    : Strategy({.seed = options.seed,
                .bucket_bytes = options.bucket_bytes,
                .step_timeout = options.step_timeout,
                .pin_threads = options.pin_threads,
                .max_bytes = options.max_bytes,
                .compile = options.compile}),
      options_(options),
      topology_(std::move(topology)) {}

absl::StatusOr<std::unique_ptr<MirroredStrategy>> MirroredStrategy::Create(const Options& options) {
  std::vector<std::string> devices = options.devices;
  if (devices.empty() && !options.num_cpu_replicas.has_value()) {
    MF_ASSIGN_OR_RETURN(devices, AllGpus());
  }
  if (devices.empty()) {
    const int replicas =
        options.num_cpu_replicas.value_or(std::min(NumUsableCores(), kMaxDefaultCpuReplicas));
    if (replicas < 1 || replicas > kMaxReplicas) {
      return absl::InvalidArgumentError(
          absl::StrCat("MirroredStrategy: num_cpu_replicas out of range; expected 1 to ",
                       kMaxReplicas, ", got ", replicas));
    }
    for (int i = 0; i < replicas; ++i) devices.push_back(absl::StrCat("CPU:", i));
  }
  MF_ASSIGN_OR_RETURN(const std::vector<int> gpus, GpusOf(devices));
  for (const std::string& device : devices) {
    MF_RETURN_IF_ERROR(CheckDevice(device));
  }
  // GPUs reach one another's memory through the libraries of their collectives alone.
  return std::unique_ptr<MirroredStrategy>(
      new MirroredStrategy(options, Topology::OneWorker(devices, /*one_domain=*/gpus.empty())));
}

absl::StatusOr<std::unique_ptr<MirroredStrategy>> MirroredStrategy::Create() {
  return Create(Options());
}

absl::StatusOr<SessionBackend> MirroredStrategy::MakeBackend() const {
  MF_ASSIGN_OR_RETURN(const std::vector<int> gpus, GpusOf(topology_.devices()));
  // Where all are the same GPU, which NCCL does not serve.
  const bool logical = gpus.size() > 1 && gpus[0] == gpus[1];
  const bool by_nccl = gpus.size() > 1 && !logical;
  MF_ASSIGN_OR_RETURN(
      SessionBackend backend,
      BackendFor(topology_, {.capture_steps = options_.capture_steps,
                             .collective_memory = by_nccl ? NcclMemory() : nullptr}));
  const absl::Duration timeout = options_.collective_timeout;
  if (gpus.empty()) {
    backend.has_teams = true;
    backend.connect = [timeout](const Topology& topology, absl::Span<const int>, WorkerGroup*,
                                uint64_t, absl::Time) {
      return CreateTeamCommunicators(topology.world_size(), timeout);
    };
  } else if (logical) {
    backend.connect = [timeout, gpu = gpus[0]](const Topology& topology, absl::Span<const int>,
                                               WorkerGroup*, uint64_t, absl::Time) {
      return CreateDeviceCopyCommunicators(topology.world_size(), gpu, {.timeout = timeout});
    };
  } else {
    const NcclOptions nccl{
        .timeout = timeout,
        .can_be_captured = options_.capture_steps && options_.capture_collectives,
        .deterministic = options_.deterministic};
    backend.connect = [gpus, nccl](const Topology& topology, absl::Span<const int> local_ranks,
                                   WorkerGroup* workers, uint64_t, absl::Time deadline) {
      return ConnectNccl(topology, local_ranks, gpus, workers, deadline, nccl);
    };
  }
  return backend;
}

}  // namespace mirrorflow
