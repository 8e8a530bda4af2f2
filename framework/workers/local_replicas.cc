// SPDX-License-Identifier: Apache-2.0
#include "framework/workers/local_replicas.h"

#include <utility>

#include "framework/core/status.h"

namespace mirrorflow {

absl::StatusOr<std::unique_ptr<LocalReplicas>> LocalReplicas::Create(
    std::vector<std::unique_ptr<Device>> devices, absl::Span<const int> ranks,
    const VariableLayout& layout, absl::Span<const std::shared_ptr<std::byte>> memory,
    const Options& options) {
  std::unique_ptr<LocalReplicas> made(new LocalReplicas(std::move(devices), options));
  MF_RETURN_IF_ERROR(made->team_.status());
  for (size_t i = 0; i < made->devices_.size(); ++i) {
    MF_ASSIGN_OR_RETURN(made->replicas_.emplace_back(),
                        Replica::Create(made->devices_[i].get(), ranks[i], layout, memory));
  }
  return made;
}

}  // namespace mirrorflow
