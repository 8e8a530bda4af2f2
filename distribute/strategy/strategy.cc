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
#include "distribute/strategy/extensions.h"
#include "framework/core/status.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cuda/gpu.h"
#include "ops/registry.h"

namespace mirrorflow {
namespace {

constexpr int kMaxDefaultCpuReplicas = 8;
// A larger number of replicas, each with its own threads, is assumed to be a mistake.
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

// Returns the ordinals of the devices if they are GPUs; empty if they are CPUs. InvalidArgument for
// a mix of both kinds, and for GPUs of which some but not all are equal.
absl::StatusOr<std::vector<int>> GpusOf(const std::vector<std::string>& devices) {
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
        absl::StrCat("devices: expected GPUs that all differ, or one GPU for all (logical GPUs), "
                     "got ",
                     absl::StrJoin(devices, ", ")));
  }
  return gpus;
}

// Returns all GPUs, the default devices of MirroredStrategy; empty if there is none.
absl::StatusOr<std::vector<std::string>> AllGpus() {
  std::vector<std::string> devices;
  MF_ASSIGN_OR_RETURN(const int num_gpus, NumGpus());
  for (int i = 0; i < num_gpus; ++i) devices.push_back(absl::StrCat("GPU:", i));
  // A build with CUDA is meant for GPUs, so it reports why it uses none.
  if (devices.empty() && BuiltWithCuda()) {
    std::fprintf(stderr, "mirrorflow: no GPU (%s); using CPU replicas\n", WhyNoGpus().c_str());
  }
  return devices;
}

absl::StatusOr<SessionBackend> BackendFor(const Topology& topology, const GpuOptions& options,
                                          const Extensions* extensions) {
  SessionBackend backend;
  for (const Topology::Place& replica : topology.replicas) {
    MF_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, CreateDevice(replica.device, options));
    backend.devices.push_back(std::move(device));
  }
  backend.ops = extensions != nullptr ? &extensions->ops() : &AllOps();
  backend.kernels = extensions != nullptr ? &extensions->kernels() : &AllKernels();
  if (extensions != nullptr) backend.passes = extensions->passes();
  backend.compile = CompileProgram;
  backend.compile_plan = CompilePlan;
  backend.topology = topology;
  return backend;
}

}  // namespace

Strategy::Strategy(SessionOptions options)
    : id_(CreationScope::NewOwner()), session_options_(std::move(options)) {}
Strategy::~Strategy() = default;

absl::Status Strategy::CheckScopes(const Graph& graph) const {
  for (const Node* node : graph.Nodes()) {
    if (node->op().role != OpRole::kVariable || !node->has_attr(kCreationScopeAttr)) continue;
    const int64_t* const owner = node->attrs().find(kCreationScopeAttr)->second.get_if<int64_t>();
    if (owner == nullptr || *owner == id_ || (*owner == 0 && !requires_scope())) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        OpAndName(*node), ": the variable was created ",
        *owner == 0 ? "outside the strategy's scope" : "in the scope of another strategy",
        "; expected `auto mirrored = strategy->scope();` of the session's strategy around the code "
        "that creates it"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Session>> Strategy::NewSession(const Graph& graph) const {
  MF_RETURN_IF_ERROR(graph.status());
  MF_RETURN_IF_ERROR(CheckScopes(graph));
  MF_ASSIGN_OR_RETURN(SessionBackend backend, MakeBackend());
  return Session::Create(graph, std::move(backend), session_options_);
}

OneDeviceStrategy::OneDeviceStrategy(const Options& options)
    : Strategy({.seed = options.seed,
                .step_timeout = options.step_timeout,
                .max_bytes = options.max_bytes,
                .compile = options.compile}),
      options_(options),
      topology_(Topology::OneWorker({options.device}, /*one_domain=*/true)) {}

absl::StatusOr<std::unique_ptr<OneDeviceStrategy>> OneDeviceStrategy::Create(
    const Options& options) {
  MF_RETURN_IF_ERROR(CheckDevice(options.device));
  if (options.extensions != nullptr) MF_RETURN_IF_ERROR(options.extensions->Check());
  return std::unique_ptr<OneDeviceStrategy>(new OneDeviceStrategy(options));
}

absl::StatusOr<std::unique_ptr<OneDeviceStrategy>> OneDeviceStrategy::Create() {
  return Create(Options());
}

absl::StatusOr<SessionBackend> OneDeviceStrategy::MakeBackend() const {
  return BackendFor(topology_, {.capture_steps = options_.capture_steps}, options_.extensions);
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
  if (options.extensions != nullptr) MF_RETURN_IF_ERROR(options.extensions->Check());
  // Replicas on GPUs exchange data only through a collective library, so each is its own domain.
  return std::unique_ptr<MirroredStrategy>(
      new MirroredStrategy(options, Topology::OneWorker(devices, /*one_domain=*/gpus.empty())));
}

absl::StatusOr<std::unique_ptr<MirroredStrategy>> MirroredStrategy::Create() {
  return Create(Options());
}

absl::StatusOr<SessionBackend> MirroredStrategy::MakeBackend() const {
  MF_ASSIGN_OR_RETURN(const std::vector<int> gpus, GpusOf(topology_.devices()));
  // Several replicas on one GPU, which NCCL does not support.
  const bool logical = gpus.size() > 1 && gpus[0] == gpus[1];
  const bool by_nccl = gpus.size() > 1 && !logical;
  MF_ASSIGN_OR_RETURN(SessionBackend backend,
                      BackendFor(topology_,
                                 {.capture_steps = options_.capture_steps,
                                  .collective_memory = by_nccl ? NcclMemory() : nullptr},
                                 options_.extensions));
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
