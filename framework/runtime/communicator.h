// SPDX-License-Identifier: Apache-2.0
//
// Communicator: one rank's end of a group of replicas that run collectives together. It moves bytes
// and reduces them; optimizers' updates are made on top of it (shared_update.h).
//
//   MF_RETURN_IF_ERROR(communicator.Run({.operation = AllReduce{Reduction::kSum, n},
//                                        .in = gradient, .out = gradient, .name = "gradient"}));
//
// Contract. All ranks issue the same collectives in the same order; a backend that can see a
// difference reports it on every rank. Each collective is two calls, so that lanes that one thread
// runs inline can overlap: Start publishes or enqueues, for which it may wait until the others
// start, too; Finish completes. Collectives of one rank are finished in the order in which they
// were started, with at most kMaxInFlight in flight. All calls of one rank but Abort come from one
// thread at a time. Every wait has a deadline (the communicator's timeout). After the first failure
// or Abort, every rank's pending and later calls return that same first status until the
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

// The collectives. Elements are in rank order in what is gathered or scattered; counts by rank may
// hold zeros and stay alive until Finish.
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
  absl::string_view name;  // alive until Finish; ranks whose names differ disagree
  int sequence = -1;       // its place among the collectives of a step, for errors
};

class Communicator {
 public:
  static constexpr int kMaxInFlight = LocalTeam::kMaxInFlight;

  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  virtual absl::Status Start(const Collective& collective, Lane* lane) = 0;
  virtual absl::Status Finish(const Collective& collective, Lane* lane) = 0;

  // The ranks of this one's memory domain, which can work on one another's memory; null if the
  // backend has no such work. The team's work and the communicator's collectives are one sequence.
  virtual LocalTeam* team() { return nullptr; }

  // Reduces this rank's share of `count` elements (ShareOf, share.h), which already holds the
  // reduction over the rank's domain, over all domains: a part of the team's work. Returns at once
  // if there is one domain.
  struct DomainShare {
    Reduction reduction = Reduction::kSum;
    DataType dtype = DT_FLOAT;
    void* memory = nullptr;  // of the share alone
    int64_t count = 0;       // of the whole
    absl::string_view name;
  };
  virtual absl::Status ReduceOverDomains(const DomainShare&) { return absl::OkStatus(); }
  virtual int num_domains() const { return 1; }

  // Declares that collectives will use this memory of the rank's device, which outlives the
  // communicator; all ranks declare as much memory. Called before the first collective.
  virtual absl::Status Register(std::byte* memory, size_t bytes) {
    static_cast<void>(memory);
    static_cast<void>(bytes);
    return absl::OkStatus();
  }

  // Whether Start and Finish only enqueue, the same work in every step: a device may record it and
  // repeat it without them.
  virtual bool can_be_repeated() const { return false; }

  // The first failure of any rank; OK until there is one. Asked when the lanes of a step have done
  // all their work, because a backend whose calls only enqueue may see a failure after Finish.
  virtual absl::Status status() const = 0;

  // Wakes every waiting rank with `why`. Any thread; the first call on any rank wins.
  virtual void Abort(absl::Status why) = 0;

  // Start and Finish in one.
  absl::Status Run(const Collective& collective, Lane* lane = nullptr) {
    absl::Status status = Start(collective, lane);
    return status.ok() ? Finish(collective, lane) : status;
  }
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_COMMUNICATOR_H_
