// SPDX-License-Identifier: Apache-2.0
//
// DomainWork: team work that exchanges data with the other memory domains (DomainExchange).
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_DOMAIN_WORK_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_DOMAIN_WORK_H_

#include <cstddef>
#include <cstdint>
#include <variant>

#include "absl/types/span.h"
#include "distribute/collective/local_team.h"
#include "framework/core/dtype.h"
#include "framework/graph/sharding.h"

namespace mirrorflow {

inline constexpr int kNoRoot = -1;

// This rank's shard of a value. The exchange reduces it over the domains, or broadcasts it, and
// hands the result back piece by piece.
struct DomainShard {
  int root = kNoRoot;  // a rank whose domain has the value to broadcast; kNoRoot for a reduction
  Reduction reduction = Reduction::kSum;
  DataType dtype = DT_FLOAT;
  int64_t count = 0;  // elements of the whole value; ShardOf (shard_pieces.h) is the rank's shard
  // The shard, reduced over the rank's domain. Must stay valid until the work is finished; elements
  // that have been taken may be overwritten. Unused by a broadcast from another domain.
  const void* in = nullptr;
  // Where results may be written, element by element, before they are taken. Can be `in`. Can be
  // null, except for a broadcast.
  void* out = nullptr;
  int urgency = 0;  // as in Collective
};

// A part to send to all other domains: the rank's partner in each domain receives it
// (DomainPartners).
struct DomainPart {
  absl::Span<const std::byte> own;
  // Where to receive the part of each rank whose partner is this rank, indexed by rank; unused for
  // other ranks. Each span has the size of that part.
  absl::Span<const absl::Span<std::byte>> others;
  int urgency = 0;
};

class DomainWork {
 public:
  virtual ~DomainWork() = default;
  virtual const TeamOffer& offer() const = 0;
  // Called once all ranks of the domain have started.
  virtual std::variant<DomainShard, DomainPart> Prepare(absl::Span<const TeamMemory> ranks) = 0;
  // Takes the result for elements [first, first + count) of the whole value.
  virtual void Take(int64_t /*first*/, const void* /*values*/, int64_t /*count*/) {}
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_DOMAIN_WORK_H_
