// SPDX-License-Identifier: Apache-2.0
//
// Communicator: one rank's endpoint of a group of replicas that run collectives together. It moves
// bytes and reduces them; optimizer updates are built on top of it (shared_update.h).
//
//   MF_RETURN_IF_ERROR(communicator.Run({.operation = AllReduce{Reduction::kSum, n},
//                                        .in = gradient, .out = gradient, .name = "gradient"}));
//
// Contract. All ranks issue the same collectives in the same order; a backend that detects a
// difference reports it on every rank. Each collective takes two calls, so that lanes that one
// thread runs inline can overlap. Start publishes or enqueues it, and may wait until the other
// ranks have started it, too; Finish completes it. Each rank finishes collectives in the order in
// which it started them, with at most kMaxInFlight in flight. All calls of one rank except Abort
// come from one thread at a time. Every wait has a deadline (the communicator's timeout). After the
// first failure or Abort, pending and later calls of every rank return that first status until the
// communicator is destroyed.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_COMMUNICATOR_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_COMMUNICATOR_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/core/dtype.h"
#include "framework/graph/sharding.h"
#include "framework/runtime/local_team.h"

namespace mirrorflow {

class Lane;

// The operations. Gathered and scattered elements are in rank order. `counts` has one entry per
// rank, which may be zero, and stays alive until Finish.
struct Barrier {};
struct AllReduce {  // in [count] -> out [count], which may be the same memory
  Reduction reduction = Reduction::kSum;
  int64_t count = 0;
};
struct ReduceScatter {  // in [sum of counts] -> out [counts[rank]]
  Reduction reduction = Reduction::kSum;
  absl::Span<const int64_t> counts;
};
struct AllGather {  // in [counts[rank]] -> out [sum of counts]
  absl::Span<const int64_t> counts;
};
struct Broadcast {  // in [count] on rank `root` -> out [count], which may be the same memory
  int64_t count = 0;
  int root = 0;
};

// One collective, as one rank sees it. A Barrier has neither dtype nor memory.
struct Collective {
  std::variant<Barrier, AllReduce, ReduceScatter, AllGather, Broadcast> operation;
  DataType dtype = DT_FLOAT;
  const void* in = nullptr;
  void* out = nullptr;
  absl::string_view name;  // alive until Finish; must be equal on all ranks
  int sequence = -1;       // index among the collectives of a step, for errors
};

class Communicator {
 public:
  static constexpr int kMaxInFlight = LocalTeam::kMaxInFlight;

  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  // Names the session's step to which the next collectives belong. Backends that exchange messages
  // compare it.
  virtual void BeginStep(uint64_t step) { static_cast<void>(step); }

  virtual absl::Status Start(const Collective& collective, Lane* lane) = 0;
  virtual absl::Status Finish(const Collective& collective, Lane* lane) = 0;

  // The ranks of this rank's memory domain, which can access one another's memory; null if the
  // backend has no such team. The team's work and the communicator's collectives are one sequence.
  virtual LocalTeam* team() { return nullptr; }

  // Work of the team that goes over all memory domains: either this rank's share of a value, whose
  // reduction the communicator hands back piece by piece, in any call of the rank …
  struct DomainShare {
    Reduction reduction = Reduction::kSum;
    DataType dtype = DT_FLOAT;
    int64_t count = 0;  // elements of the whole value; the share is ShareOf them (share.h)
    // The share alone, reduced over the rank's domain. Must stay until the work is finished, but
    // elements that have been taken may be written.
    const void* in = nullptr;
    // Where results may be written before they are taken, element by element; may be `in`. Null:
    // not anywhere.
    void* out = nullptr;
    int urgency = 0;  // where two can go on, that of the smaller number goes first
  };
  // … or a part that all ranks of other domains get.
  struct DomainPart {
    absl::Span<const std::byte> own;
    // By rank: where its part goes; unused for ranks of this domain. The size is that of the part.
    absl::Span<const absl::Span<std::byte>> others;
    int urgency = 0;
  };
  class DomainWork {
   public:
    virtual ~DomainWork() = default;
    virtual const TeamOffer& offer() const = 0;
    // Called once all ranks of the domain have started.
    virtual std::variant<DomainShare, DomainPart> Prepare(absl::Span<const TeamMemory> ranks) = 0;
    // Takes the result of elements [first, first + count) of the whole value of a share.
    virtual void Take(int64_t first, const void* values, int64_t count) {
      static_cast<void>(first), static_cast<void>(values), static_cast<void>(count);
    }
    // Called when nothing of the work is in flight any more.
    virtual void Complete(absl::Span<const TeamMemory> ranks) { static_cast<void>(ranks); }
  };
  // Take the place of the team's Start and Finish if there are several domains.
  virtual absl::Status StartOverDomains(DomainWork* work) {
    return absl::InternalError(absl::StrCat(work->offer().name, ": there is one memory domain"));
  }
  virtual absl::Status FinishOverDomains(DomainWork* work) { return StartOverDomains(work); }
  // Called where a rank leaves such work in flight for a while. From here on it progresses without
  // further calls.
  virtual absl::Status Settle() { return absl::OkStatus(); }
  virtual int num_domains() const { return 1; }
  // The ranks of this rank's domain, as the team numbers them; empty without a team.
  virtual absl::Span<const int> domain_ranks() const { return {}; }

  // Declares memory of the rank's device that collectives will use. The memory outlives the
  // communicator. All ranks register the same amount, before the first collective.
  virtual absl::Status Register(std::byte* memory, size_t bytes) {
    static_cast<void>(memory);
    static_cast<void>(bytes);
    return absl::OkStatus();
  }

  // Whether Start and Finish only enqueue work, the same work in every step. A device may then
  // record it and replay it without calling them.
  virtual bool can_be_repeated() const { return false; }

  // The first failure of any rank; OK until there is one. Callers check it after the lanes of a
  // step have done all their work, because a backend whose calls only enqueue may detect a failure
  // after Finish.
  virtual absl::Status status() const = 0;

  // Wakes every waiting rank with `why`. Any thread may call it; the first call on any rank wins.
  virtual void Abort(absl::Status why) = 0;

  // Start followed by Finish.
  absl::Status Run(const Collective& collective, Lane* lane = nullptr) {
    absl::Status status = Start(collective, lane);
    return status.ok() ? Finish(collective, lane) : status;
  }
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_COMMUNICATOR_H_
