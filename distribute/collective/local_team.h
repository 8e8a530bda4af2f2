// SPDX-License-Identifier: Apache-2.0
//
// LocalTeam: one rank's view of the ranks of its memory domain, for work that they do jointly. Each
// rank offers its memory for a piece of work; once all ranks have, each does its share of the work
// on the memory of all.
//
//   MF_RETURN_IF_ERROR(team.Start(offer));
//   …
//   return team.Finish(offer, [&](absl::Span<const TeamMemory> ranks) {
//     return AddUpMyShare(ranks);  // the memory that each rank has offered
//   });
//
// Contract. All ranks start the same work in the same order, with at most kMaxInFlight pieces in
// flight, and may finish it in any order; a difference is an error on every rank. Start neither
// waits nor computes. A piece of work succeeds on all ranks or on none. No rank accesses another
// rank's memory after that rank's Finish, or after one of that rank's calls has returned an error.
// Every wait has a deadline. After the first failure or Abort, all calls of all ranks return that
// first status.
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

// Describes a piece of work in errors; alive until its Finish.
class TeamWork {
 public:
  virtual ~TeamWork() = default;
  // `all-reduce 'gradients/0' of 100 float (sum)`
  virtual std::string ToString() const = 0;
};

struct TeamOffer {
  uint64_t fingerprint = 0;  // of everything that must agree between ranks
  const TeamWork* work = nullptr;
  absl::string_view name = {};  // for errors; alive until Finish
  int sequence = -1;            // index among the collectives of a step, for errors
  // The rank's memory; the work defines its meaning. If the ranks are in several processes, only
  // memory that the rank's device has allocated can be written; memory that is only read may be
  // anywhere, and is copied if the others cannot reach it.
  const void* in = nullptr;
  int64_t in_bytes = 0;
  const void* right = nullptr;
  int64_t right_bytes = 0;
  absl::Span<std::byte* const> out;  // alive until Finish; at most LocalTeam::kMaxOuts
};

// The memory that one rank has offered, at the addresses by which the calling rank reaches it.
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

  // Zeroed memory that all ranks of the team can reach.
  virtual absl::StatusOr<std::shared_ptr<std::byte>> Allocate(size_t bytes) = 0;

  virtual absl::Status Start(const TeamOffer& offer) = 0;
  // Calls `work` once all ranks have started, and returns true; the share is not done yet. If it
  // does not wait, it may return false. Between this call and Finish, the rank may access the
  // memory of the others in Access, from any thread.
  virtual absl::StatusOr<bool> Begin(const TeamOffer& offer, bool waits, Work work) = 0;
  virtual absl::Status Access(absl::FunctionRef<absl::Status()> access) = 0;
  // Waits until all ranks have started, calls `work`, and waits until it has returned on all ranks:
  // a first half of the share, for work whose second half needs the first halves of all ranks. Each
  // rank calls it at most once before Finish, and either all ranks do or none.
  virtual absl::Status Meet(const TeamOffer& offer, Work work) = 0;
  // Waits until all ranks have started, calls `work`, and waits until all ranks have done their
  // share. An error of `work` fails all ranks, as in the calls above.
  virtual absl::Status Finish(const TeamOffer& offer, Work work) = 0;

  // The first failure of any rank; OK until there is one.
  virtual absl::Status status() const = 0;
  // Wakes every waiting rank with `why`. Any thread may call it; the first call on any rank wins.
  virtual void Abort(absl::Status why) = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_LOCAL_TEAM_H_
