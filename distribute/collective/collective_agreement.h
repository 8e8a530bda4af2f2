// SPDX-License-Identifier: Apache-2.0
//
// CollectiveAgreement compares the collectives of all ranks before a library enqueues them that
// does not compare them itself: NCCL hangs, or mixes up data, if ranks differ.
//
//   agreement.BeginStep(r);
//   agreement.Announce(r, collectives);
//   MF_RETURN_IF_ERROR(agreement.Check(r, collective, "captured", deadline));  // for each
//
// The ranks of one worker are compared in memory, at every collective. Workers compare through
// their WorkerGroup, which takes a round trip: once for each list of collectives that a step
// announces, when they start it for the first time. From then on, each worker compares what it
// starts with its own list. A hash of all collectives is compared, too, at the first, second,
// fourth, … and later at every kInterval-th. Collectives outside of steps, which nothing announces,
// are rare: each of them takes a round trip. A device that records a step and replays it enqueues
// its collectives only for the recording.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_COLLECTIVE_AGREEMENT_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_COLLECTIVE_AGREEMENT_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"
#include "framework/runtime/communicator.h"
#include "framework/runtime/topology.h"
#include "framework/workers/worker_group.h"

namespace mirrorflow {

class CollectiveAgreement {
 public:
  static constexpr uint64_t kInterval = 1024;

  // `workers` is null if there is only one; it outlives this object.
  CollectiveAgreement(const Topology& topology, absl::Span<const int> local_ranks,
                      WorkerGroup* workers);

  // As for a Communicator. Called, like Check, by the thread of local rank `r`.
  void BeginStep(int r);
  void Announce(int r, absl::Span<const Collective* const> collectives);

  // Called before local rank `r` enqueues `collective`. `how` is compared, too: a collective that
  // is captured into a graph does not meet one that is not. InvalidArgument, with what the ranks
  // have, if they differ; DeadlineExceeded, with the missing worker, if another one does not
  // compare by `deadline`.
  absl::Status Check(int r, const Collective& collective, absl::string_view how,
                     MonotonicTime deadline);

 private:
  // The latest collective of a rank, counted from 1, and a hash of it and of all before it.
  struct Position {
    uint64_t number = 0;
    uint64_t hash = 0;
  };
  // A collective as the first local rank had it.
  struct First {
    Position position;
    int rank = -1;
    std::string text;
  };
  // A list that a step has announced. All are started in the same way.
  struct Announced {
    absl::Span<const Collective* const> collectives;
    size_t next = 0;
    std::string how = "";
  };
  // Local ranks that are further apart are not compared until they meet at a collective again.
  static constexpr size_t kRemembered = 256;
  // The first collectives are described in full if local ranks differ, and the others by name:
  // steps of a program that has run for a while build no descriptions.
  static constexpr uint64_t kDescribed = 256;

  absl::Status CompareRanks(int rank, const Position& at, const Collective& c,
                            absl::string_view how);
  // Compares the collective with the one that has been announced, if any, after comparing all that
  // have been announced with other workers if they are new. `before` is the position before it.
  absl::Status CheckAnnounced(const Position& before, const Collective& c, absl::string_view how,
                              MonotonicTime deadline);
  // Compares the collectives that come next, and all before them, with those of the other workers.
  absl::Status CompareWorkers(const Position& before, absl::Span<const Collective* const> next,
                              absl::string_view how, MonotonicTime deadline);
  // The error of this worker, which has `own` where the others have `expected`.
  absl::Status DiffersFromAnnounced(uint64_t number, const Collective& expected,
                                    absl::string_view how, const std::string& own) const;
  int FirstRank(int worker) const { return topology_.RanksOfWorker(worker)[0]; }

  const Topology topology_;
  const std::vector<int> local_ranks_;
  WorkerGroup* const workers_;
  std::vector<Position> positions_;  // by local rank; each belongs to the thread of its rank
  // These belong to the thread of local rank 0, which compares with other workers.
  std::vector<Announced> announced_;  // each is part of the one before it
  uint64_t begin_ = 0;                // number of the last collective before the step
  std::set<uint64_t> agreed_;         // hashes of lists that all workers have
  int comparisons_ = 0;
  absl::Status left_out_;  // the error of a step that did not start all that it had announced
  Mutex mu_;
  std::vector<First> firsts_ ABSL_GUARDED_BY(mu_);  // collective n is in firsts_[n % kRemembered]
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_COLLECTIVE_AGREEMENT_H_
