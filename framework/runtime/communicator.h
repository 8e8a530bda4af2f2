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

  // Reduces this rank's share of `count` elements (ShareOf, share.h) over all domains. The share
  // already holds the reduction over the rank's domain. Called as part of the team's work; returns
  // at once if there is only one domain.
  struct DomainShare {
    Reduction reduction = Reduction::kSum;
    DataType dtype = DT_FLOAT;
    void* memory = nullptr;  // holds only the share
    int64_t count = 0;       // elements of the whole value
    absl::string_view name;
  };
  virtual absl::Status ReduceOverDomains(const DomainShare&) { return absl::OkStatus(); }
  virtual int num_domains() const { return 1; }

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
