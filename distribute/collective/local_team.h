// SPDX-License-Identifier: Apache-2.0
//
// LocalTeam: one rank's view of the ranks of its memory domain, for work that they do jointly. Each
// rank offers its memory for a piece of work. Once all ranks have done so, each does its part of
// the work on the memory of all ranks.
//
//   MF_RETURN_IF_ERROR(team.Start(offer));
//   …
//   return team.Finish(offer, [&](absl::Span<const TeamMemory> ranks) {
//     return ReduceMyShard(ranks);  // the memory that each rank has offered
//   });
//
// Contract. All ranks start the same work in the same order, with at most kMaxInFlight pieces in
// flight, and may finish it in any order. If ranks differ, every rank fails with an error. Start
// neither waits nor computes. A piece of work succeeds on all ranks or on none. No rank accesses
// another rank's memory after that rank's Finish, or after one of that rank's calls has returned an
// error. Every wait has a deadline. After the first failure or Abort, all calls of all ranks return
// that first status.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_LOCAL_TEAM_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_LOCAL_TEAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/runtime/communicator.h"

namespace mirrorflow {

// Describes a piece of work in errors. Must outlive the Finish of that work.
class TeamWork {
 public:
  virtual ~TeamWork() = default;
  // Returns a description such as `all-reduce 'gradients/0' of 100 float (sum)`.
  virtual std::string ToString() const = 0;
};

struct TeamOffer {
  uint64_t fingerprint = 0;  // hash of everything that must agree between ranks
  const TeamWork* work = nullptr;
  absl::string_view name = {};  // for errors; must outlive Finish
  int sequence = -1;            // index among the collectives of a step, for errors
  // The rank's memory; the work defines its meaning. If the ranks are in several processes, memory
  // that other ranks write must be allocated by the rank's device. Memory that is only read can be
  // anywhere: it is copied if the other ranks cannot access it.
  const void* in = nullptr;
  int64_t in_bytes = 0;
  const void* right = nullptr;
  int64_t right_bytes = 0;
  absl::Span<std::byte* const> out;  // must outlive Finish; at most LocalTeam::kMaxOuts
};

// The memory that one rank has offered, at its addresses in the calling rank's process.
struct TeamMemory {
  const void* in = nullptr;
  const void* right = nullptr;
  absl::Span<std::byte* const> out;
};

class LocalTeam {
 public:
  static constexpr int kMaxInFlight = Communicator::kMaxInFlight;
  static constexpr size_t kMaxOuts = Communicator::kMaxVariables;
  using Work = absl::FunctionRef<absl::Status(absl::Span<const TeamMemory> ranks)>;

  virtual ~LocalTeam() = default;

  virtual int rank() const = 0;  // among the ranks of the domain
  virtual int size() const = 0;

  // Allocates zeroed memory that all ranks of the team can access.
  virtual absl::StatusOr<std::shared_ptr<std::byte>> Allocate(size_t bytes) = 0;

  virtual absl::Status Start(const TeamOffer& offer) = 0;
  // Blocks until all ranks have started, calls `work` and returns true. If `waits` is false, it
  // does not block, and returns false if some rank has not started. The rank's part ends only with
  // Finish. Until then, any thread of the rank may access the other ranks' memory inside Access.
  virtual absl::StatusOr<bool> Begin(const TeamOffer& offer, bool waits, Work work) = 0;
  virtual absl::Status Access(absl::FunctionRef<absl::Status()> access) = 0;
  // Blocks until all ranks have started, calls `work`, and blocks until it has returned on all
  // ranks. This is the first of two phases, for work whose second phase needs the first phase of
  // every rank. A rank calls it at most once before Finish, and either all ranks call it or none.
  virtual absl::Status Meet(const TeamOffer& offer, Work work) = 0;
  // Blocks until all ranks have started, calls `work`, and blocks until all ranks have done their
  // part. An error from `work` fails all ranks, as in the calls above.
  virtual absl::Status Finish(const TeamOffer& offer, Work work) = 0;

  // Returns the first failure of any rank; OK if none has failed.
  virtual absl::Status status() const = 0;
  // Wakes every waiting rank with `why`. Any thread may call it; the first call on any rank wins.
  virtual void Abort(absl::Status why) = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_LOCAL_TEAM_H_
