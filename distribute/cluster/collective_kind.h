// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COLLECTIVE_KIND_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COLLECTIVE_KIND_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mirrorflow {

// How workers exchange data.
enum class CollectiveKind {
  kAuto,          // through shared memory on one host, UCX between hosts
  kSharedMemory,  // only through shared memory: all workers are on one host
  kUcx,           // only through UCX: each worker is a memory domain
};

// From `auto`, `shared_memory` or `ucx`; InvalidArgument for any other name.
absl::StatusOr<CollectiveKind> ParseCollectiveKind(absl::string_view name);
std::string CollectiveKindName(CollectiveKind kind);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COLLECTIVE_KIND_H_
