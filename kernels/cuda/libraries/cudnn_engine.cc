// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/cudnn_engine.h"

#include <algorithm>
#include <utility>

#include "framework/core/mutex.h"
#include "framework/core/status.h"
#include "kernels/cuda/device/cuda_status.h"

namespace mirrorflow {
namespace {

absl::StatusOr<std::vector<CudnnDescriptor>> ConfigsOf(const CudnnDescriptor& graph,
                                                       const CudnnDescriptor& gpu,
                                                       cudnnBackendHeurMode_t mode) {
  constexpr int64_t kMaxConfigs = 64;
  MF_ASSIGN_OR_RETURN(const CudnnDescriptor heuristic,
                      CudnnBuilder(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
                          .Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
                          .Set(CUDNN_ATTR_ENGINEHEUR_MODE, mode)
                          .Set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, gpu)
                          .Build());
  return heuristic.GetDescriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                                  kMaxConfigs);
}

// Returns the engine of a configuration.
absl::StatusOr<CudnnDescriptor> EngineOf(const CudnnDescriptor& config) {
  MF_ASSIGN_OR_RETURN(
      std::vector<CudnnDescriptor> engines,
      config.GetDescriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1));
  if (engines.empty()) return absl::InternalError("cuDNN: a configuration has no engine");
  return std::move(engines[0]);
}

// Copies a configuration. Each configuration is used for only one plan: if an engine compiles its
// kernels at run time, cuDNN 9.19 fails to compile them for a second plan.
absl::StatusOr<CudnnDescriptor> CopyOf(const CudnnDescriptor& config) {
  MF_ASSIGN_OR_RETURN(const CudnnDescriptor engine, EngineOf(config));
  MF_ASSIGN_OR_RETURN(
      const std::vector<CudnnDescriptor> choices,
      config.GetDescriptors(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
                            CUDNN_KNOB_TYPE_COUNTS));
  CudnnBuilder copy(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  copy.Set(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  if (!choices.empty()) copy.Set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, choices);
  return copy.Build();
}

// Returns whether the engine's sums are reproducible and as precise as requested.
absl::StatusOr<bool> IsPrecise(const CudnnDescriptor& config, bool allow_tensor_cores) {
  MF_ASSIGN_OR_RETURN(const CudnnDescriptor engine, EngineOf(config));
  MF_ASSIGN_OR_RETURN(const auto notes,
                      engine.Get<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                                              CUDNN_NUMERICAL_NOTE_TYPE_COUNT));
  return std::none_of(notes.begin(), notes.end(), [&](cudnnBackendNumericalNote_t note) {
    return note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC ||
           note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS ||
           note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION ||
           (!allow_tensor_cores && note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  });
}

// Returns the engine's workspace size, or Unimplemented if the library proposed the engine but
// cannot make a plan for it.
absl::StatusOr<size_t> WorkspaceBytes(const CudnnEngine& engine) {
  MF_ASSIGN_OR_RETURN(const CudnnDescriptor plan, engine.MakePlan());
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> bytes,
                      plan.Get<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 1));
  if (bytes.empty()) return absl::InternalError("cuDNN: a plan has no workspace size");
  return static_cast<size_t>(bytes[0]);
}

}  // namespace

absl::StatusOr<CudnnDescriptor> CudnnEngine::MakePlan() const {
  MF_ASSIGN_OR_RETURN(const CudnnDescriptor own, CopyOf(config));
  return CudnnBuilder(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
      .Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, own)
      .Build();
}

absl::StatusOr<CudnnDescriptor> PropertiesOfGpu() {
  int ordinal = 0;
  MF_RETURN_IF_CUDA_ERROR(cudaGetDevice(&ordinal));
  return CudnnBuilder(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)
      .Set(CUDNN_ATTR_DEVICEPROP_DEVICE_ID, static_cast<int32_t>(ordinal))
      .Build();
}

absl::StatusOr<CudnnProposals> ProposeEngines(std::vector<CudnnDescriptor> descriptors,
                                              const CudnnDescriptor& gpu, bool allow_tensor_cores,
                                              int max_count) {
  const auto graph = std::make_shared<const std::vector<CudnnDescriptor>>(std::move(descriptors));
  CudnnProposals proposed;
  absl::Status failure = absl::UnimplementedError("cuDNN has no engine for this graph");
  // Only the second mode adds the slow engines that support almost everything.
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    if (!proposed.empty()) break;
    absl::StatusOr<std::vector<CudnnDescriptor>> configs = ConfigsOf(graph->back(), gpu, mode);
    if (absl::IsUnimplemented(configs.status())) continue;
    if (!configs.ok()) return configs.status();
    for (CudnnDescriptor& config : *configs) {
      if (static_cast<int>(proposed.size()) == max_count) break;
      MF_ASSIGN_OR_RETURN(const bool precise, IsPrecise(config, allow_tensor_cores));
      if (!precise) continue;
      CudnnEngine engine{.graph = graph, .config = std::move(config)};
      const absl::StatusOr<size_t> bytes = WorkspaceBytes(engine);
      if (!bytes.ok() && !absl::IsUnimplemented(bytes.status())) failure = bytes.status();
      if (!bytes.ok() || *bytes > kMaxCudnnWorkspaceBytes) continue;
      engine.workspace_bytes = *bytes;
      proposed.push_back(std::make_shared<const CudnnEngine>(std::move(engine)));
    }
  }
  if (proposed.empty()) return failure;
  return proposed;
}

CudnnLane::~CudnnLane() {
  plans_.clear();
  if (handle_ != nullptr) cudnnDestroy(handle_);
}

absl::StatusOr<cudnnBackendDescriptor_t> CudnnLane::PlanOf(
    const std::shared_ptr<const CudnnEngine>& engine) {
  const auto found = plans_.find(engine.get());
  if (found != plans_.end() && found->second.of.lock() == engine) return found->second.plan.get();
  std::erase_if(plans_, [](const auto& each) { return each.second.of.expired(); });
  // Take a lock, because lanes of other GPUs may make plans for the same engine at the same time.
  static Mutex* const mu = new Mutex();
  MutexLock lock(mu);
  MF_ASSIGN_OR_RETURN(CudnnDescriptor plan, engine->MakePlan());
  return plans_.insert_or_assign(engine.get(), Plan{engine, std::move(plan)})
      .first->second.plan.get();
}

absl::Status CudnnLane::Execute(cudaStream_t stream,
                                const std::shared_ptr<const CudnnEngine>& engine,
                                const CudnnBindings& bindings) {
  if (handle_ == nullptr) {
    MF_RETURN_IF_CUDNN_ERROR(cudnnCreate(&handle_));
    MF_RETURN_IF_CUDNN_ERROR(cudnnSetStream(handle_, stream));
  }
  MF_ASSIGN_OR_RETURN(const cudnnBackendDescriptor_t plan, PlanOf(engine));
  MF_ASSIGN_OR_RETURN(const CudnnDescriptor pack,
                      CudnnBuilder(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
                          .Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, bindings.ids)
                          .Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, bindings.addresses)
                          .Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, bindings.workspace)
                          .Build());
  MF_RETURN_IF_CUDNN_ERROR(cudnnBackendExecute(handle_, plan, pack.get()));
  return absl::OkStatus();
}

}  // namespace mirrorflow
