// SPDX-License-Identifier: Apache-2.0
#include "framework/session/variable_memory.h"

#include <algorithm>

#include "framework/core/buffer.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

// Alignment of the regions that workers share: each region starts on a new page.
constexpr size_t kSharedAlignment = 4096;

size_t Aligned(int64_t bytes) { return AlignUp(bytes, kSharedAlignment); }

}  // namespace

bool CanShareVariables(const SessionBackend& backend, const CompileOptions& options) {
  return backend.has_teams && !options.disabled_passes.contains("reduce_in_updates") &&
         std::all_of(backend.devices.begin(), backend.devices.end(),
                     [](const auto& device) { return device->traits().host_memory; });
}

absl::StatusOr<VariableLayout> LayOutVariables(const Graph& graph, const World& world,
                                               const DeviceTraits& traits, int64_t bucket_bytes,
                                               bool can_share) {
  const auto lay_out = [&](int64_t bytes) {
    return VariableLayout::Create(graph, bytes, world.size, can_share && world.size > 1);
  };
  if (bucket_bytes != 0) return lay_out(bucket_bytes);
  MF_ASSIGN_OR_RETURN(VariableLayout layout, lay_out(traits.bucket_bytes));
  if (!traits.host_memory || world.one_domain()) return layout;
  int64_t bytes = 0;
  for (const BucketInfo& bucket : layout.buckets()) bytes += bucket.bytes;
  return lay_out(world.link.BucketBytes(bytes));
}

absl::StatusOr<SharedRegions> AllocateSharedRegions(const VariableLayout& layout,
                                                    const SessionBackend& backend, int first_rank,
                                                    MonotonicTime deadline) {
  const std::vector<LayoutRegion>& regions = layout.regions();
  SharedRegions shared;
  shared.memory.resize(regions.size());
  if (backend.share_memory == nullptr) {
    for (size_t r = 0; r < regions.size(); ++r) {
      if (!regions[r].shared) continue;
      MF_ASSIGN_OR_RETURN(shared.memory[r], backend.devices[0]->Allocate(regions[r].bytes));
    }
    return shared;
  }
  const int domain = backend.topology.replicas[first_rank].domain;
  shared.sharing = {.with_workers = true,
                    .writes = backend.topology.RanksOfDomain(domain)[0] == first_rank};
  size_t total = 0;
  for (const LayoutRegion& region : regions) total += region.shared ? Aligned(region.bytes) : 0;
  if (total == 0) return shared;
  MF_ASSIGN_OR_RETURN(const std::shared_ptr<std::byte> memory,
                      backend.share_memory(total, "variables", *backend.workers, deadline));
  std::byte* next = memory.get();
  for (size_t r = 0; r < regions.size(); ++r) {
    if (!regions[r].shared) continue;
    shared.memory[r] = std::shared_ptr<std::byte>(memory, next);
    next += Aligned(regions[r].bytes);
  }
  return shared;
}

}  // namespace mirrorflow
