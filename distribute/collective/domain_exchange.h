// SPDX-License-Identifier: Apache-2.0
//
// DomainExchange: exchanges data between one rank and ranks of other memory domains, over any
// transport (ALGORITHMS.md). Values are reduced in the order of the domains, whichever arrives
// first, so all ranks get the same bits in every run.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_DOMAIN_EXCHANGE_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_DOMAIN_EXCHANGE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "distribute/collective/transport.h"
#include "framework/core/dtype.h"
#include "framework/graph/sharding.h"
#include "framework/runtime/communicator.h"
#include "framework/runtime/topology.h"

namespace mirrorflow {

// Waits between domains last longer than waits within one by this factor, so that the domain of a
// missing rank is the first to name it.
inline constexpr double kBetweenDomains = 1.25;

class DomainExchange {
 public:
  DomainExchange(const Topology& topology, int rank, std::unique_ptr<Transport> transport);
  ~DomainExchange();

  // The session's step to which the next collectives belong. May be called from any thread.
  void set_step(uint64_t step) { step_.store(step, std::memory_order_relaxed); }

  int num_domains() const { return static_cast<int>(domains_.size()); }

  // All ranks make the same calls in the same order. `fingerprint` is that of the collective.

  // Implements Communicator::ReduceOverDomains: a direct reduce-scatter of the rank's share among
  // the ranks whose shares have the same elements, one per domain, then an all-gather.
  absl::Status ReduceShare(const Communicator::DomainShare& share, uint64_t fingerprint);

  // Writes this rank's part of a reduce-scatter, counts[rank] elements, to `out`.
  // reduce_in_domain(r, out) writes the part of rank r, counts[r] elements, reduced over this
  // rank's domain.
  absl::Status ReduceScatterParts(Reduction reduction, DataType dtype,
                                  absl::Span<const int64_t> counts, void* out,
                                  absl::FunctionRef<void(int rank, void* out)> reduce_in_domain,
                                  uint64_t fingerprint);

  // Sends `own` to all ranks of other domains, and receives their parts into their places in `all`.
  absl::Status GatherParts(DataType dtype, absl::Span<const int64_t> counts, const void* own,
                           void* all, uint64_t fingerprint);

  // Sends from `root` to all ranks of other domains. The ranks of the root's own domain receive
  // nothing here.
  absl::Status Broadcast(int root, const void* in, void* out, int64_t bytes, uint64_t fingerprint);

  // Called by all ranks. Only the first rank of each domain takes part: it returns when those of
  // all domains have called it.
  absl::Status Barrier(uint64_t fingerprint);

  void Abort(const absl::Status& why) { transport_->Abort(why); }

 private:
  struct Cell;
  // This rank's share of `count` elements, cut wherever the share of any domain's rank ends.
  // Cached, because a training step needs the same cells every time.
  const std::vector<Cell>& CellsOf(int64_t count, int64_t element_bytes);
  std::vector<Cell> MakeCells(int64_t count, int64_t element_bytes) const;
  bool IsNear(int rank) const { return domain_of_[rank] == domain_; }
  // The rank of domain `d` that reduces the part of `rank`, which is in another domain.
  int Partner(int d, int rank) const { return domains_[d][rank % domains_[d].size()]; }
  std::byte* Scratch(int64_t bytes);
  // The tag of the next collective.
  MessageTag NextTag(uint64_t fingerprint);

  const int rank_;
  std::vector<int> domain_of_;             // by rank
  std::vector<std::vector<int>> domains_;  // their ranks, by domain
  const int domain_;
  int index_ = 0;  // of this rank in its domain
  const std::unique_ptr<Transport> transport_;
  std::atomic<uint64_t> step_{0};
  uint64_t sequence_ = 0;           // of the last collective
  std::vector<std::byte> scratch_;  // grows to the largest size needed
  std::vector<const void*> parts_;  // by domain, while a reduction runs
  std::map<std::pair<int64_t, int64_t>, std::vector<Cell>> cells_;  // by count and element size
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_DOMAIN_EXCHANGE_H_
