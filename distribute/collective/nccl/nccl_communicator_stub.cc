// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/nccl/nccl_communicator.h"
#include "framework/core/monotonic_time.h"

namespace mirrorflow {

absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> ConnectNccl(const Topology&,
                                                                       absl::Span<const int>,
                                                                       absl::Span<const int>,
                                                                       WorkerGroup*, MonotonicTime,
                                                                       const NcclOptions&) {
  return absl::UnimplementedError("NCCL: this program was built without CUDA");
}

absl::Status CheckNcclEnvironment() { return absl::OkStatus(); }

const CollectiveMemory* NcclMemory() { return nullptr; }

}  // namespace mirrorflow
