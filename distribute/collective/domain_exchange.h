// SPDX-License-Identifier: Apache-2.0
//
// DomainExchange: exchanges data between one rank and ranks of other memory domains, over any
// transport (ALGORITHMS.md). Values are reduced in domain order, whichever arrives first, so all
// ranks get the same bits in every run.
//
// All ranks begin the same work in the same order, and may finish it in any order. Every call that
// begins work or waits makes progress on everything in flight.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_DOMAIN_EXCHANGE_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_DOMAIN_EXCHANGE_H_

#include <poll.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "distribute/collective/domain_partners.h"
#include "distribute/collective/domain_work.h"
#include "distribute/collective/exchange_options.h"
#include "distribute/collective/transport.h"
#include "framework/core/dtype.h"
#include "framework/core/mutex.h"
#include "framework/graph/sharding.h"
#include "framework/runtime/topology.h"

namespace mirrorflow {

// A wait between domains times out later, by this factor, than a wait within a domain. The domain
// of a missing rank therefore times out first and names it.
inline constexpr double kBetweenDomains = 1.25;

class DomainExchange {
 public:
  // `timeout` limits each wait.
  DomainExchange(const Topology& topology, int rank, std::unique_ptr<Transport> transport,
                 absl::Duration timeout, const ExchangeOptions& options = {});
  ~DomainExchange();

  // Sets the session step that the next collectives belong to. Can be called from any thread.
  void set_step(uint64_t step) { step_.store(step, std::memory_order_relaxed); }

  const DomainPartners& partners() const { return partners_; }
  int num_domains() const { return partners_.num_domains(); }
  // Returns the ranks of other domains whose partner is this rank.
  absl::Span<const int> served() const { return served_; }

  // Begins the exchange that `work` needs: a shard to reduce or broadcast, or parts to exchange.
  // Passes each piece of a shard to work->Take() as soon as its result is known.
  absl::Status Begin(DomainWork* work, const std::variant<DomainShard, DomainPart>& needs);
  // Blocks until `work` has received everything and all its sends to other domains are done.
  absl::Status Finish(const DomainWork* work);

  // Moves the data in flight without waiting. Returns whether anything moved.
  absl::StatusOr<bool> Progress();
  // Like Transport::PrepareToWait, but adds no events if nothing is in flight.
  bool PrepareToWait(std::vector<pollfd>* events);

  // The collectives below block until they are done. `fingerprint` identifies the collective.

  // Writes this rank's part of a reduce-scatter, counts[rank] elements, to `out`.
  // reduce_in_domain(r, out) must write rank r's part, counts[r] elements, reduced over this rank's
  // domain.
  absl::Status ReduceScatterParts(Reduction reduction, DataType dtype,
                                  absl::Span<const int64_t> counts, void* out,
                                  absl::FunctionRef<void(int rank, void* out)> reduce_in_domain,
                                  uint64_t fingerprint);

  // Sends `own` to this rank's partners. Receives the parts of the ranks whose partner is this
  // rank, each at its offset in `all`.
  absl::Status GatherParts(DataType dtype, absl::Span<const int64_t> counts, const void* own,
                           void* all, uint64_t fingerprint);

  // All ranks must call it, but only the first rank of each domain exchanges messages: its call
  // returns once the first ranks of all domains have called Barrier.
  absl::Status Barrier(uint64_t fingerprint);

  void Abort(const absl::Status& why) { transport_->Abort(why); }
  // Cancels the transfers in flight, if any; all later calls then fail. Once it returns, no
  // transfer accesses its memory, which the caller may free. No other call may be in progress.
  void CancelTransfers();

 private:
  struct Layout;
  struct Flight;

  std::byte* Scratch(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the tag of the next collective.
  MessageTag NextTag(uint64_t fingerprint) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Start one message of a collective that sends at most one message from each rank to each other
  // rank.
  absl::Status Send(int rank, const MessageTag& tag, const void* memory, int64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Receive(int rank, const MessageTag& tag, void* memory, int64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Returns the dtype of the values in messages.
  DataType WireTypeOf(const DomainShard& shard) const;
  Layout& LayoutOf(const DomainShard& shard) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Starts one message of piece `p` to or from the rank in `domain`.
  absl::Status Start(Flight& flight, size_t p, int domain, bool sends, bool is_result,
                     std::byte* memory) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Launch(const DomainShard& shard, Flight& flight) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns where the messages of piece `p` arrive.
  static std::byte* Received(Flight& flight, size_t p);
  std::byte* Reduce(Flight& flight, size_t p) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Take(const Flight& flight, size_t p, const std::byte* result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Launch(const DomainPart& part, Flight& flight) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Flight& NewFlight(Layout& layout, DomainWork* work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<bool> Advance(Flight& flight) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Like Progress, with mu_ held.
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
  // The parts of a reduce-scatter in flight, by domain.
  std::vector<const void*> scattered_ ABSL_GUARDED_BY(mu_);
  // Transfers that the current blocking collective still waits for.
  int unfinished_ ABSL_GUARDED_BY(mu_) = 0;
  // Keyed by element count, element size, and element size on the wire.
  std::map<std::tuple<int64_t, int64_t, int64_t>, std::unique_ptr<Layout>> layouts_
      ABSL_GUARDED_BY(mu_);
  // Broadcasts are rare and as large as the variables, so each has a layout only while in flight.
  std::vector<std::unique_ptr<Layout>> broadcasts_ ABSL_GUARDED_BY(mu_);
  // The layout for exchanges of parts, which have no pieces.
  std::unique_ptr<Layout> parts_layout_ ABSL_GUARDED_BY(mu_);
  std::vector<Flight*> flights_ ABSL_GUARDED_BY(mu_);  // in flight, in the order they were begun
  std::vector<float> widened_ ABSL_GUARDED_BY(mu_);    // a bfloat16 piece as float32
  // Spare capacity that the next wait reuses.
  std::vector<pollfd> events_ ABSL_GUARDED_BY(mu_);
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_DOMAIN_EXCHANGE_H_
