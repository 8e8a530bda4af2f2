// SPDX-License-Identifier: Apache-2.0
//
// Creates session backends for mirrored replicas on GPUs or CPUs.
#ifndef MIRRORFLOW_DISTRIBUTE_STRATEGY_MIRRORED_BACKEND_H_
#define MIRRORFLOW_DISTRIBUTE_STRATEGY_MIRRORED_BACKEND_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "distribute/strategy/strategy.h"
#include "framework/runtime/topology.h"
#include "framework/session/session_backend.h"

namespace mirrorflow {

// Checks that NCCL can connect the replicas on `gpus`, the GPUs of one of `num_workers` workers.
// Returns InvalidArgument for logical GPUs with several workers, and if NCCL_COMM_ID is set
// although NCCL connects the replicas (more than one GPU or worker).
absl::Status CheckGpuReplicas(absl::Span<const int> gpus, int num_workers);

// Returns the devices of `worker`, by local rank.
std::vector<std::string> DevicesOfWorker(const Topology& topology, int worker);

// Returns the backend for a topology with one worker, on GPUs or CPUs.
absl::StatusOr<SessionBackend> CreateMirroredBackend(const Topology& topology,
                                                     const MirroredStrategy::Options& options);

// Returns a backend with the GPUs of `worker`, kernels, compiler and topology. Logical GPUs are
// connected through device copies, and all others through NCCL. If `network_device` is set, NCCL
// connects the workers through it.
absl::StatusOr<SessionBackend> CreateGpuBackend(const Topology& topology, int worker,
                                                const MirroredStrategy::Options& options,
                                                const std::string& network_device = "");

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_STRATEGY_MIRRORED_BACKEND_H_
