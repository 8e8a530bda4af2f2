// SPDX-License-Identifier: Apache-2.0
#include "tests/support/logical_gpus.h"

#include "distribute/all_kernels.h"
#include "distribute/collective/device_copy/device_copy_communicator.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/session/session_backend.h"
#include "kernels/cuda/device/cuda_device.h"

namespace mirrorflow {

absl::Status SetLogicalGpus(const TestSessionOptions& options, SessionBackend* backend) {
  const int size = options.replicas;
  for (int i = 0; i < size; ++i) {
    MF_ASSIGN_OR_RETURN(auto device, CreateCudaDevice(i, /*ordinal=*/0));
    backend->devices.push_back(std::move(device));
  }
  backend->kernels = &AllKernels();
  backend->connect = [timeout = options.collective_timeout](const Topology& topology,
                                                            absl::Span<const int>, WorkerGroup*,
                                                            uint64_t, MonotonicTime) {
    return CreateDeviceCopyCommunicators(topology.world_size(), /*gpu=*/0, timeout);
  };
  return absl::OkStatus();
}

}  // namespace mirrorflow
