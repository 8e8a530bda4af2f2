// SPDX-License-Identifier: Apache-2.0
//
// Decides which workers form a memory domain: all workers on one host, if they can share memory.
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
  std::vector<int> by_worker;  // each worker's domain
  // Shared by all workers in this worker's domain; null if the domain has no other workers.
  std::shared_ptr<HostMemory> host_memory;
  // Why workers on one host cannot share memory although they should be able to; empty if they can.
  std::string warning;
};

// Groups the workers into memory domains. All workers must call this. `hosts[worker]` is equal for
// workers that can be expected to share memory (HostIdentity). Returns InvalidArgument on all
// workers if `kind` requires one host but there are several, and FailedPrecondition if `kind`
// requires shared memory but a worker cannot share it.
absl::StatusOr<MemoryDomains> FormMemoryDomains(absl::Span<const std::string> hosts,
                                                CollectiveKind kind, WorkerGroup& group,
                                                MonotonicTime deadline);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_MEMORY_DOMAINS_H_
