// SPDX-License-Identifier: Apache-2.0
//
// Communicator: one rank's endpoint of a group of replicas that run collectives together.
//
//   MF_RETURN_IF_ERROR(communicator.Run({.operation = AllReduce{Reduction::kSum, n},
//                                        .in = gradient, .out = gradient, .name = "gradient"}));
//
// Contract. All ranks issue the same collectives in the same order; a backend that detects a
// difference reports it on every rank. Each collective takes two calls, so that communication and
// computation overlap even if one thread runs all lanes. Start publishes or enqueues the
// collective, and may wait until the other ranks have started it; Finish completes it. Each rank
// finishes collectives in start order, except updates, which it may finish at any time; at most
// kMaxInFlight are in flight. All calls of one rank except Abort come from one thread at a time.
// Every wait has a deadline (the communicator's timeout). After the first failure or Abort, pending
// and later calls of every rank return that first status until the communicator is destroyed.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_COMMUNICATOR_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_COMMUNICATOR_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/core/dtype.h"
#include "framework/graph/sharding.h"
#include "framework/runtime/product_rows.h"

namespace mirrorflow {

class Lane;

// The operations. Gathered and scattered elements are in rank order. `counts` has one entry per
// rank, possibly zero, and must stay alive until Finish.
struct Barrier {};
struct AllReduce {  // in [count] -> out [count], which may be the same memory
  Reduction reduction = Reduction::kSum;
  int64_t count = 0;
};
struct ReduceScatter {  // in [sum of counts] -> out [counts[rank]]
  Reduction reduction = Reduction::kSum;
  absl::Span<const int64_t> counts;
};
// If the ranks are on several hosts, `out` must be memory that the device has allocated, because
// the ranks of a host write to one another's `out`.
struct AllGather {  // in [counts[rank]] -> out [sum of counts]
  absl::Span<const int64_t> counts;
};
// Ranks that use host memory may pass the same `out`; the value is then written only once.
struct Broadcast {  // in [count] on rank `root` -> out [count], which may be the same memory
  int64_t count = 0;
  int root = 0;
};

// The two updates reduce a gradient and apply an optimizer to it in one pass: each rank reduces its
// shard and, while the shard is in the cache, updates that shard of the variables for every rank in
// its memory domain. Only ranks that use host memory can run them. The variables are equal on all
// ranks before and after; the ranks of a memory domain may share one copy.
//
// An update rule applies the optimizer to a range of this rank's variables. The communicator calls
// it between Start and Finish, in any call of the rank and on any thread, but not concurrently.
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  // Updates elements [first, first + count); `gradient` holds only these elements.
  virtual void Apply(int64_t first, const void* gradient, int64_t count) = 0;
};
class ProductUpdateRule {
 public:
  virtual ~ProductUpdateRule() = default;
  // Updates rows [first, last) by aᵀ · b. `parts` holds the rows of a and b, rank by rank.
  virtual void Apply(absl::Span<const ProductRows> parts, int64_t first, int64_t last) = 0;
};
struct Update {  // in [count], a gradient -> variables, [count] each
  // Unset if every rank already has the whole gradient.
  std::optional<Reduction> reduction;
  int64_t count = 0;
  absl::Span<std::byte* const> variables;
  UpdateRule* rule = nullptr;
};
struct ProductUpdate {  // in [counts[rank], rows] and right [counts[rank], …] -> variables
  const void* right = nullptr;
  absl::Span<const int64_t> counts;
  int64_t rows = 0;       // per variable
  int64_t row_bytes = 0;  // per row of `right` and of a variable
  absl::Span<std::byte* const> variables;
  ProductUpdateRule* rule = nullptr;
};

// One rank's view of a collective. A Barrier has neither dtype nor memory.
struct Collective {
  std::variant<Barrier, AllReduce, ReduceScatter, AllGather, Broadcast, Update, ProductUpdate>
      operation;
  DataType dtype = DT_FLOAT;
  const void* in = nullptr;
  void* out = nullptr;
  absl::string_view name;  // must be equal on all ranks, and stay alive until Finish
  int sequence = -1;       // index among the collectives of a step, for errors
  int urgency = 0;         // if several collectives can proceed, the smallest number goes first
};

class Communicator {
 public:
  static constexpr int kMaxInFlight = 256;
  static constexpr size_t kMaxVariables = 11;  // per update

  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  // Sets the session step that the following collectives belong to. Backends that exchange messages
  // compare it between ranks.
  virtual void BeginStep(uint64_t /*step*/) {}
  // Announces the collectives that the step will start next, in order. A branch or a loop iteration
  // announces its own collectives when it begins; they run before the rest of the enclosing list.
  // The collectives outlive the step. If the device replays the step, none of them are started.
  // Backends that compare ranks out of band can compare the whole list at once.
  virtual void Announce(absl::Span<const Collective* const> /*collectives*/) {}
  // Ends a step that leaves updates in flight. They progress without further calls until the next
  // step begins.
  virtual absl::Status EndStep() { return absl::OkStatus(); }

  virtual absl::Status Start(const Collective& collective, Lane* lane) = 0;
  virtual absl::Status Finish(const Collective& collective, Lane* lane) = 0;

  // Registers device memory that collectives will use. The memory must outlive the communicator.
  // All ranks register the same number of bytes, before the first collective.
  virtual absl::Status Register(std::byte* /*memory*/, size_t /*bytes*/) {
    return absl::OkStatus();
  }

  // Returns whether Start and Finish only enqueue work, and the same work in every step. A device
  // can then record the work and replay it without calling them.
  virtual bool can_be_repeated() const { return false; }

  // Returns the first failure of any rank, or OK. Callers check it after the lanes of a step have
  // drained, because a backend that only enqueues work can detect a failure after Finish.
  virtual absl::Status status() const = 0;

  // Wakes all waiting ranks, and makes their calls return `why`. Thread-safe. If several ranks call
  // it, the first call determines `why`.
  virtual void Abort(absl::Status why) = 0;

  // Calls Start, then Finish.
  absl::Status Run(const Collective& collective, Lane* lane = nullptr) {
    absl::Status status = Start(collective, lane);
    return status.ok() ? Finish(collective, lane) : status;
  }
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_COMMUNICATOR_H_
