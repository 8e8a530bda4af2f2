// SPDX-License-Identifier: Apache-2.0
//
// DomainExchange: what one rank exchanges with ranks of other memory domains, over any transport
// (ALGORITHMS.md). Reductions are made in the order of the domains, whatever arrives first, so all
// ranks get the same bits in every run.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_DOMAIN_EXCHANGE_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_DOMAIN_EXCHANGE_H_

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

class DomainExchange {
 public:
  DomainExchange(const Topology& topology, int rank, std::unique_ptr<Transport> transport);
  ~DomainExchange();

  int num_domains() const { return static_cast<int>(domains_.size()); }

  // Communicator::ReduceOverDomains: a direct reduce-scatter of the rank's share among the ranks
  // that have the same elements as theirs, one a domain, then an all-gather of the results.
  absl::Status ReduceShare(const Communicator::DomainShare& share, uint64_t tag);

  // This rank's part of a reduction, out of the parts [counts[r]] of all ranks r:
  // reduce_in_domain(r, out) writes the reduction over this rank's domain of rank r's part.
  absl::Status ReduceScatterParts(Reduction reduction, DataType dtype,
                                  absl::Span<const int64_t> counts, void* out,
                                  absl::FunctionRef<void(int rank, void* out)> reduce_in_domain,
                                  uint64_t tag);

  // Sends `own` to all ranks of other domains, and receives their parts to where they belong in
  // `all`.
  absl::Status GatherParts(DataType dtype, absl::Span<const int64_t> counts, const void* own,
                           void* all, uint64_t tag);

  // From `root` to the ranks of other domains than its own; nothing for those of its own.
  absl::Status Broadcast(int root, const void* in, void* out, int64_t bytes, uint64_t tag);

  // Returns when a rank of every domain has called it; the first of each domain takes part.
  absl::Status Barrier(uint64_t tag);

  void Abort(const absl::Status& why) { transport_->Abort(why); }

 private:
  struct Cell;
  // The elements of a share, cut where any domain's shares end. A training step asks for the same
  // ones every time, so they are kept.
  const std::vector<Cell>& CellsOf(int64_t count, int64_t element_bytes);
  std::vector<Cell> MakeCells(int64_t count, int64_t element_bytes) const;
  bool IsNear(int rank) const { return domain_of_[rank] == domain_; }
  // The rank of domain `d` that works for `rank` of another domain.
  int Partner(int d, int rank) const { return domains_[d][rank % domains_[d].size()]; }
  std::byte* Scratch(int64_t bytes);

  const int rank_;
  std::vector<int> domain_of_;             // by rank
  std::vector<std::vector<int>> domains_;  // their ranks
  const int domain_;
  int index_ = 0;  // of this rank in its domain
  const std::unique_ptr<Transport> transport_;
  std::vector<std::byte> scratch_;  // grows to the largest that was needed
  std::vector<const void*> parts_;  // at hand while a reduction runs: by domain
  std::map<std::pair<int64_t, int64_t>, std::vector<Cell>> cells_;  // by count and element size
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_DOMAIN_EXCHANGE_H_
