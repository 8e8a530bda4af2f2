// SPDX-License-Identifier: Apache-2.0
//
// DomainExchange: exchanges data between one rank and ranks of other memory domains, over any
// transport (ALGORITHMS.md). Values are reduced in the order of the domains, whichever arrives
// first, so all ranks get the same bits in every run.
//
// All ranks begin the same work in the same order; what they have begun they may finish in any
// order. Every call that waits or begins moves all that is in flight.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_DOMAIN_EXCHANGE_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_DOMAIN_EXCHANGE_H_

#include <poll.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "distribute/collective/domain_partners.h"
#include "distribute/collective/domain_work.h"
#include "distribute/collective/exchange_options.h"
#include "distribute/collective/shard_pieces.h"
#include "distribute/collective/transport.h"
#include "framework/core/dtype.h"
#include "framework/core/mutex.h"
#include "framework/graph/sharding.h"
#include "framework/runtime/topology.h"

namespace mirrorflow {

// Waits between domains last longer than waits within one by this factor, so that the domain of a
// missing rank is the first to name it.
inline constexpr double kBetweenDomains = 1.25;

class DomainExchange {
 public:
  // `timeout`: of every wait.
  DomainExchange(const Topology& topology, int rank, std::unique_ptr<Transport> transport,
                 absl::Duration timeout, const ExchangeOptions& options = {});
  ~DomainExchange();

  // The session's step to which the next collectives belong. May be called from any thread.
  void set_step(uint64_t step) { step_.store(step, std::memory_order_relaxed); }

  const DomainPartners& partners() const { return partners_; }
  int num_domains() const { return partners_.num_domains(); }
  // The ranks of other domains whose partner this rank is.
  absl::Span<const int> served() const { return served_; }

  // Begins what `work` needs of the other domains: to reduce or broadcast a shard, whose pieces it
  // takes as they become known, or to exchange parts.
  absl::Status Begin(DomainWork* work, const std::variant<DomainShard, DomainPart>& needs);
  // Waits until `work` has all, and the other domains what they need of this rank.
  absl::Status Finish(const DomainWork* work);

  // Moves what is in flight without waiting; returns whether anything moved.
  absl::StatusOr<bool> Progress();
  // Adds the events to wait for, as Transport does; none if nothing is in flight.
  bool PrepareToWait(std::vector<pollfd>* events);

  // The other collectives wait until they are done. `fingerprint` is that of the collective.

  // Writes this rank's part of a reduce-scatter, counts[rank] elements, to `out`.
  // reduce_in_domain(r, out) writes the part of rank r, counts[r] elements, reduced over this
  // rank's domain.
  absl::Status ReduceScatterParts(Reduction reduction, DataType dtype,
                                  absl::Span<const int64_t> counts, void* out,
                                  absl::FunctionRef<void(int rank, void* out)> reduce_in_domain,
                                  uint64_t fingerprint);

  // Sends `own` to this rank's partners, and receives the parts of the ranks whose partner it is
  // into their places in `all`.
  absl::Status GatherParts(DataType dtype, absl::Span<const int64_t> counts, const void* own,
                           void* all, uint64_t fingerprint);

  // Called by all ranks. Only the first rank of each domain takes part: it returns when those of
  // all domains have called it.
  absl::Status Barrier(uint64_t fingerprint);

  void Abort(const absl::Status& why) { transport_->Abort(why); }

 private:
  struct Layout;
  struct Flight;

  bool IsNear(int rank) const { return partners_.DomainOf(rank) == domain_; }
  std::byte* Scratch(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The tag of the next collective.
  MessageTag NextTag(uint64_t fingerprint) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Start one message of a collective in which each rank sends at most one to each other rank.
  absl::Status Send(int rank, const MessageTag& tag, const void* memory, int64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Receive(int rank, const MessageTag& tag, void* memory, int64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // The form in which the values travel.
  DataType WireTypeOf(const DomainShard& shard) const;
  Layout& LayoutOf(const DomainShard& shard) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Starts one message of piece `p`, with the rank of `domain`.
  absl::Status Start(Flight& flight, size_t p, int domain, bool sends, bool is_result,
                     std::byte* memory) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Launch(const DomainShard& shard, Flight& flight) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Where the messages of piece `p` arrive.
  static std::byte* Received(Flight& flight, size_t p);
  std::byte* Reduce(Flight& flight, size_t p) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Take(const Flight& flight, size_t p, const std::byte* result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Launch(const DomainPart& part, Flight& flight) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Flight& NewFlight(Layout& layout, DomainWork* work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<bool> Advance(Flight& flight) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Moves what is in flight; returns whether anything moved.
  absl::StatusOr<bool> ProgressLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Makes progress until `unfinished` is 0. Releases mu_ while it sleeps.
  absl::Status WaitFor(const int& unfinished) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool WaitsForPassedOn() const;
  absl::Status TimedOut(absl::Duration waited) const;
  absl::Status WithSequence(const absl::Status& status) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Topology topology_;
  const int rank_;
  const DomainPartners partners_;
  const int domain_;
  const std::vector<int> served_;
  const std::unique_ptr<Transport> transport_;
  const absl::Duration timeout_;
  const ExchangeOptions options_;
  std::atomic<uint64_t> step_{0};

  Mutex mu_;
  uint64_t sequence_ ABSL_GUARDED_BY(mu_) = 0;           // of the last collective
  std::vector<std::byte> scratch_ ABSL_GUARDED_BY(mu_);  // grows to the largest size needed
  std::vector<const void*> parts_ ABSL_GUARDED_BY(mu_);  // by domain, while a piece is reduced
  // By domain, while a reduce-scatter waits.
  std::vector<const void*> scattered_ ABSL_GUARDED_BY(mu_);
  // Transfers that the current blocking collective still waits for.
  int unfinished_ ABSL_GUARDED_BY(mu_) = 0;
  // Keyed by element count, element size, and element size on the wire.
  std::map<std::tuple<int64_t, int64_t, int64_t>, std::unique_ptr<Layout>> layouts_
      ABSL_GUARDED_BY(mu_);
  // Broadcasts are rare and as large as the variables, so each has a layout only while in flight.
  std::vector<std::unique_ptr<Layout>> broadcasts_ ABSL_GUARDED_BY(mu_);
  // For exchanges of parts, which have no pieces.
  std::unique_ptr<Layout> parts_layout_ ABSL_GUARDED_BY(mu_);
  std::vector<Flight*> flights_ ABSL_GUARDED_BY(mu_);  // begun and not finished, in this order
  std::vector<float> widened_ ABSL_GUARDED_BY(mu_);    // a piece of bfloat16
  // Empty memory that the next wait reuses.
  std::vector<pollfd> events_ ABSL_GUARDED_BY(mu_);
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_DOMAIN_EXCHANGE_H_
