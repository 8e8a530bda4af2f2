// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/memory_domains.h"

#include <cstddef>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

std::vector<int> WorkersOn(const std::string& host, absl::Span<const std::string> hosts) {
  std::vector<int> workers;
  for (size_t w = 0; w < hosts.size(); ++w) {
    if (hosts[w] == host) workers.push_back(static_cast<int>(w));
  }
  return workers;
}

}  // namespace

absl::StatusOr<MemoryDomains> FormMemoryDomains(absl::Span<const std::string> hosts,
                                                CollectiveKind kind, WorkerGroup& group,
                                                MonotonicTime deadline) {
  const std::set<std::string> different(hosts.begin(), hosts.end());
  if (kind == CollectiveKind::kSharedMemory && different.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("collective shared_memory: expected all workers on one host, with the same "
                     "user and network namespace, got ",
                     different.size(), " different combinations of these"));
  }
  MemoryDomains domains;
  MF_RETURN_IF_ERROR(group.Join(deadline).status());
  const auto may_share = [&](const std::vector<int>& workers) {
    const bool shares = kind == CollectiveKind::kAuto || kind == CollectiveKind::kSharedMemory;
    return shares && workers.size() > 1;
  };
  const std::vector<int> neighbours = WorkersOn(hosts[group.worker()], hosts);
  std::string outcome;  // why it cannot map the memory of the others on its host; empty if it can
  if (may_share(neighbours)) {
    auto memory = HostMemory::Connect(neighbours, group, deadline);
    if (memory.ok()) {
      domains.host_memory = *std::move(memory);
    } else {
      outcome = std::string(memory.status().message());
    }
  }
  MF_ASSIGN_OR_RETURN(
      const std::vector<std::string> failures,
      group.AllGather("why workers cannot share memory", std::move(outcome), deadline));

  int next = 0;
  domains.by_worker.resize(hosts.size(), -1);
  for (size_t w = 0; w < hosts.size(); ++w) {
    if (domains.by_worker[w] >= 0) continue;
    const std::vector<int> workers = WorkersOn(hosts[w], hosts);
    bool share = may_share(workers);
    for (size_t i = 0; i < workers.size() && may_share(workers); ++i) {
      const std::string& failure = failures[workers[i]];
      if (failure.empty()) continue;
      share = false;
      domains.warning =
          absl::StrCat("worker ", workers[i],
                       " cannot share memory with the other workers on its host: ", failure);
    }
    for (const int worker : workers) {
      if (domains.by_worker[worker] < 0) domains.by_worker[worker] = share ? next : next++;
    }
    if (share) ++next;
    if (!share && hosts[w] == hosts[group.worker()]) domains.host_memory = nullptr;
  }
  if (kind == CollectiveKind::kSharedMemory && !domains.warning.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("collective shared_memory: ", domains.warning));
  }
  return domains;
}

}  // namespace mirrorflow
