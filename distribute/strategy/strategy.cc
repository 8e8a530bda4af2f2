// SPDX-License-Identifier: Apache-2.0
#include "distribute/strategy/strategy.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "distribute/all_kernels.h"
#include "distribute/collective/in_process.h"
#include "distribute/pipeline.h"
#include "framework/core/status.h"
#include "kernels/cpu/cpu_device.h"
#include "ops/registry.h"

namespace mirrorflow {
namespace {

constexpr int kMaxDefaultCpuReplicas = 8;
// More threads than this on one host is a mistake, not a wish.
constexpr int kMaxReplicas = 1024;

absl::StatusOr<std::unique_ptr<Device>> CreateDevice(absl::string_view name) {
  int index;
  if (absl::StartsWith(name, "CPU:") && absl::SimpleAtoi(name.substr(4), &index) && index >= 0) {
    return CreateCpuDevice(index);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "device '", name, "': expected CPU:0, CPU:1, …; this build has no other devices"));
}

absl::StatusOr<SessionBackend> BackendFor(const Mesh& mesh) {
  SessionBackend backend;
  for (const std::string& name : mesh.devices) {
    MF_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, CreateDevice(name));
    backend.devices.push_back(std::move(device));
  }
  backend.ops = &AllOps();
  backend.kernels = &AllKernels();
  backend.compile = CompileProgram;
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
                .compile = options.compile}) {
  mesh_.devices = {options.device};
}

absl::StatusOr<std::unique_ptr<OneDeviceStrategy>> OneDeviceStrategy::Create(
    const Options& options) {
  MF_RETURN_IF_ERROR(CreateDevice(options.device).status());
  return std::unique_ptr<OneDeviceStrategy>(new OneDeviceStrategy(options));
}

absl::StatusOr<std::unique_ptr<OneDeviceStrategy>> OneDeviceStrategy::Create() {
  return Create(Options());
}

absl::StatusOr<SessionBackend> OneDeviceStrategy::MakeBackend() const { return BackendFor(mesh_); }

MirroredStrategy::MirroredStrategy(const Options& options, Mesh mesh)
    : Strategy({.seed = options.seed,
                .bucket_bytes = options.bucket_bytes,
                .step_timeout = options.step_timeout,
                .pin_threads = options.pin_threads,
                .max_bytes = options.max_bytes,
                .compile = options.compile}),
      collective_timeout_(options.collective_timeout),
      mesh_(std::move(mesh)) {}

absl::StatusOr<std::unique_ptr<MirroredStrategy>> MirroredStrategy::Create(const Options& options) {
  Mesh mesh;
  mesh.devices = options.devices;
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
  for (const std::string& device : mesh.devices) {
    MF_RETURN_IF_ERROR(CreateDevice(device).status());
  }
  mesh.world_size = static_cast<int>(mesh.devices.size());
  return std::unique_ptr<MirroredStrategy>(new MirroredStrategy(options, std::move(mesh)));
}

absl::StatusOr<std::unique_ptr<MirroredStrategy>> MirroredStrategy::Create() {
  return Create(Options());
}

absl::StatusOr<SessionBackend> MirroredStrategy::MakeBackend() const {
  MF_ASSIGN_OR_RETURN(SessionBackend backend, BackendFor(mesh_));
  backend.connect = [world_size = mesh_.world_size, timeout = collective_timeout_] {
    return CreateInProcessCommunicators(world_size, {.timeout = timeout});
  };
  backend.ranks_share_memory = true;
  return backend;
}

}  // namespace mirrorflow
