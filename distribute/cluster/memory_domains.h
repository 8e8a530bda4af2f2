// SPDX-License-Identifier: Apache-2.0
//
// Decides which workers form a memory domain: those of one host, if they can share memory.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_MEMORY_DOMAINS_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_MEMORY_DOMAINS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "distribute/cluster/join_options.h"
#include "distribute/collective/shared_memory/host_memory.h"
#include "framework/core/monotonic_time.h"
#include "framework/workers/worker_group.h"

namespace mirrorflow {

struct MemoryDomains {
  std::vector<int> by_worker;  // the number of each worker's domain
  // Shared by this worker's domain; null if no other worker belongs to it.
  std::shared_ptr<HostMemory> host_memory;
  // Why workers of one host do not share memory, although they might; empty if they do.
  std::string warning;
};

// Called by all workers; `hosts[worker]` are equal for workers that could share memory
// (HostIdentity). InvalidArgument on all workers if `kind` does not fit the hosts;
// FailedPrecondition if memory must be shared but cannot.
absl::StatusOr<MemoryDomains> FormMemoryDomains(absl::Span<const std::string> hosts,
                                                CollectiveKind kind, WorkerGroup& group,
                                                MonotonicTime deadline);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_MEMORY_DOMAINS_H_
