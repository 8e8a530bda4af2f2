// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COLLECTIVE_KIND_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COLLECTIVE_KIND_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mirrorflow {

// How workers exchange data.
enum class CollectiveKind {
  // Through shared memory on one host; between hosts over TCP, or over UCX if all have RDMA and the
  // job has neither a secret nor certificates, which UCX would ignore.
  kAuto,
  kSharedMemory,  // only through shared memory: all workers are on one host
  kUcx,           // only over UCX: each worker is a memory domain
  kTcp,           // only over TCP connections of our own: each worker is a memory domain
};

// From `auto`, `shared_memory`, `ucx` or `tcp`; InvalidArgument for any other name.
absl::StatusOr<CollectiveKind> ParseCollectiveKind(absl::string_view name);
std::string CollectiveKindName(CollectiveKind kind);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COLLECTIVE_KIND_H_
