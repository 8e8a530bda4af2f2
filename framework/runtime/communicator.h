// SPDX-License-Identifier: Apache-2.0
//
// Communicator: one rank's end of a group of replicas that compute collectives together.
//
// Contract. All ranks issue the same collectives in the same order; a backend that can see a
// difference reports it on every rank. Each collective is two calls, so that what one thread runs
// inline can overlap: Start publishes or enqueues, for which it may wait until the others start,
// too; Finish completes. Collectives of one rank are finished in the order in which they were
// started, any number may be in flight up to kMaxInFlight. All calls of one rank but Abort come
// from one thread at a time. Every wait has a deadline (the communicator's timeout). After the
// first failure or Abort, every rank's pending and later calls return that same first status until
// the communicator is destroyed.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_COMMUNICATOR_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_COMMUNICATOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/core/dtype.h"
#include "framework/graph/sharding.h"
#include "framework/runtime/product_rows.h"

namespace mirrorflow {

class Lane;

enum class CollectiveKind {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kBarrier,
  kUpdate,
  kUpdateByProduct,
};
absl::string_view CollectiveKindName(CollectiveKind kind);

// What a rank does with the reduction of an Update: it writes elements [first, first + count) of
// the variables, which are the same for all ranks; `reduced` has those alone.
class ReducedUpdate {
 public:
  virtual ~ReducedUpdate() = default;
  virtual void Run(int64_t first, const void* reduced, int64_t count) const = 0;
};

// The same of an UpdateByProduct: writes rows [first, last) of the variable; `parts` by rank.
class ProductUpdate {
 public:
  virtual ~ProductUpdate() = default;
  virtual void Run(absl::Span<const ProductRows> parts, int64_t first, int64_t last) const = 0;
};

// One collective, as one rank sees it. Elements lie in rank order in what is gathered or scattered.
//   AllReduce      in [count]                 -> out [count]               (may be the same memory)
//   ReduceScatter  in [sum of counts]         -> out [counts[rank]]
//   AllGather      in [counts[rank]]          -> out [sum of counts]
//   Broadcast      in [count] on rank `root`  -> out [count]               (may be the same memory)
//   Barrier        nothing
//   Update         in [count]                 -> variables [count] each, after `update` of the
//                                                reduction; only where ranks share memory. A
//                                                variable may be one for all of them
//   UpdateByProduct  in [counts[rank], rows], right [counts[rank], *] -> variables [rows, *] each,
//                    after `product_update` by (all ranks' in)ᵀ · (all ranks' right); as Update
struct Collective {
  CollectiveKind kind = CollectiveKind::kBarrier;
  Reduction reduction = Reduction::kSum;
  DataType dtype = DT_FLOAT;
  const void* in = nullptr;
  void* out = nullptr;
  int64_t count = 0;
  bool is_whole = false;             // of an Update: `in` is the reduction already, on every rank
  int64_t rows = 0;                  // of an UpdateByProduct
  int64_t row_bytes = 0;             // of one row of a variable
  absl::Span<const int64_t> counts;  // per rank; may hold zeros; alive until Finish
  int root = 0;
  // Alive until Finish; what they hold is equal on all ranks before and after.
  absl::Span<std::byte* const> variables;
  const ReducedUpdate* update = nullptr;
  const void* right = nullptr;
  const ProductUpdate* product_update = nullptr;
  absl::string_view name;  // for errors; alive until Finish; ranks whose names differ disagree
};

class Communicator {
 public:
  static constexpr int kMaxInFlight = 256;

  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  virtual absl::Status Start(const Collective& collective, Lane* lane) = 0;
  virtual absl::Status Finish(const Collective& collective, Lane* lane) = 0;
  // Says that collectives will use this memory of the rank's device, which outlives the
  // communicator; all ranks say so of as much memory. Called before the first collective.
  virtual absl::Status Register(std::byte* memory, size_t bytes) {
    static_cast<void>(memory);
    static_cast<void>(bytes);
    return absl::OkStatus();
  }

  // Whether Start and Finish do no more than to enqueue, the same in every step: a device may keep
  // what they did and repeat it without them.
  virtual bool can_be_repeated() const { return false; }

  // Brackets collectives that may be issued as one (NCCL groups). Backends without groups ignore
  // it.
  virtual absl::Status GroupBegin() { return absl::OkStatus(); }
  virtual absl::Status GroupEnd() { return absl::OkStatus(); }

  // Called when the lanes of a step have done all they had: whether a collective failed that had
  // only been enqueued. Backends whose Finish has seen the end need no more.
  virtual absl::Status Check() { return absl::OkStatus(); }

  // A communicator of the ranks that pass the same `color`, ranked by (key, rank). Collective.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) = 0;

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
