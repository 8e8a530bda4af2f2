// SPDX-License-Identifier: Apache-2.0
//
// CollectiveAgreement checks that all ranks enqueue the same collectives, for libraries that do not
// check this themselves: NCCL hangs or mixes up data if collectives differ between ranks.
//
//   agreement.BeginStep(r);
//   agreement.Announce(r, collectives);
//   MF_RETURN_IF_ERROR(agreement.Check(r, collective, "captured", deadline));  // for each
//
// The ranks of one worker are compared in memory, at every collective. Workers compare through
// their WorkerGroup, which takes a round trip. They do so once for each list of collectives that a
// step announces, the first time they start it. After that, each worker compares the collectives
// that it starts only with its own list. Workers also compare a hash of all collectives at the
// first, second, fourth, … and later at every kInterval-th collective. Collectives outside of steps
// are not announced, so each takes a round trip; they are rare. A device that records a step and
// replays it enqueues its collectives only for the recording.
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

  // `workers` is null if the job has a single worker; otherwise it must outlive this object.
  CollectiveAgreement(const Topology& topology, absl::Span<const int> local_ranks,
                      WorkerGroup* workers);

  // These have the contract of the Communicator functions of the same names. They and Check are
  // called by the thread of local rank `r`.
  void BeginStep(int r);
  void Announce(int r, absl::Span<const Collective* const> collectives);

  // Called before local rank `r` enqueues `collective`. Also compares `how`, because a collective
  // that is captured into a graph cannot pair with one that is not. Returns InvalidArgument, naming
  // each rank's collective, if ranks differ; and DeadlineExceeded, naming the missing worker, if
  // another worker does not compare by `deadline`.
  absl::Status Check(int r, const Collective& collective, absl::string_view how,
                     MonotonicTime deadline);

 private:
  // The number of a rank's latest collective, counted from 1, and a hash of all collectives up to
  // and including it.
  struct Position {
    uint64_t number = 0;
    uint64_t hash = 0;
  };
  // The first local rank to start a collective, and its description of that collective.
  struct First {
    Position position;
    int rank = -1;
    std::string text;
  };
  // A list of collectives that a step has announced. All are started with the same `how`.
  struct Announced {
    absl::Span<const Collective* const> collectives;
    size_t next = 0;
    std::string how = "";
  };
  // How many of the latest collectives are kept for comparison. Local ranks that are further apart
  // than this are not compared until they are closer again.
  static constexpr size_t kRemembered = 256;
  // If local ranks differ, the error describes a collective in full up to this number, and later
  // ones only by name, so a program in steady state builds no descriptions.
  static constexpr uint64_t kDescribed = 256;

  absl::Status CompareRanks(int rank, const Position& at, const Collective& c,
                            absl::string_view how);
  // Compares the collective with the announced one, if any. Before that, compares a new list of
  // announced collectives with the other workers. `before` is the position before `c`.
  absl::Status CheckAnnounced(const Position& before, const Collective& c, absl::string_view how,
                              MonotonicTime deadline);
  // Compares the collectives `next`, and a hash of all earlier ones, with the other workers.
  absl::Status CompareWorkers(const Position& before, absl::Span<const Collective* const> next,
                              absl::string_view how, MonotonicTime deadline);
  // Returns the error that this worker has `own` where the other workers have `expected`.
  absl::Status DiffersFromAnnounced(uint64_t number, const Collective& expected,
                                    absl::string_view how, const std::string& own) const;
  int FirstRank(int worker) const { return topology_.RanksOfWorker(worker)[0]; }

  const Topology topology_;
  const std::vector<int> local_ranks_;
  WorkerGroup* const workers_;
  std::vector<Position> positions_;  // by local rank; used only by that rank's thread
  // Used only by the thread of local rank 0, which compares with other workers.
  std::vector<Announced> announced_;  // each list is part of the previous one
  uint64_t begin_ = 0;                // number of the last collective before the step
  std::set<uint64_t> agreed_;         // hashes of the lists that all workers agree on
  int comparisons_ = 0;
  absl::Status left_out_;  // set if a step did not start all collectives that it announced
  Mutex mu_;
  std::vector<First> firsts_ ABSL_GUARDED_BY(mu_);  // collective n is in firsts_[n % kRemembered]
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_COLLECTIVE_AGREEMENT_H_
