// SPDX-License-Identifier: Apache-2.0
//
// CollectiveAgreement compares the collectives of all ranks before a library enqueues them that
// does not compare them itself: NCCL hangs, or mixes up data, if ranks differ.
//
//   MF_RETURN_IF_ERROR(agreement.Check(r, collective, "captured", deadline));
//
// The ranks of one worker are compared in memory, at every collective. Workers compare through
// their WorkerGroup, which takes a round trip: one by one the first kOneByOne collectives that they
// enqueue, then a hash of all at every kInterval-th. A device that records a step and replays it
// enqueues its collectives only for the recording.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_COLLECTIVE_AGREEMENT_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_COLLECTIVE_AGREEMENT_H_

#include <cstdint>
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
  static constexpr uint64_t kOneByOne = 256;
  static constexpr uint64_t kInterval = 1024;

  // `workers` is null if there is only one; it outlives this object.
  CollectiveAgreement(const Topology& topology, absl::Span<const int> local_ranks,
                      WorkerGroup* workers);

  // Called by the thread of local rank `r` before it enqueues `collective`. `how` is compared, too:
  // a collective that is captured into a graph does not meet one that is not. InvalidArgument, with
  // what each rank has, if the ranks differ; DeadlineExceeded, with the last collective of the
  // other worker, if that is not there by `deadline`.
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
  // Local ranks that are further apart are not compared until they meet at a collective again.
  static constexpr size_t kRemembered = 256;

  // `text` describes the collective; empty: its name must do.
  absl::Status CompareRanks(int rank, const Position& at, const Collective& c,
                            const std::string& text);
  absl::Status WhyNotCompared(const absl::Status& why, const Position& at, const Collective& c,
                              const std::string& text) const;
  absl::Status CompareWorkers(const Position& at, const Collective& c, const std::string& text,
                              MonotonicTime deadline);
  int FirstRank(int worker) const { return topology_.RanksOfWorker(worker)[0]; }

  const Topology topology_;
  const std::vector<int> local_ranks_;
  WorkerGroup* const workers_;
  std::vector<Position> positions_;  // by local rank; each belongs to the thread of its rank
  // The last collective of which all workers have the same; of the first local rank's thread.
  std::string last_text_ = "none";
  Mutex mu_;
  std::vector<First> firsts_ ABSL_GUARDED_BY(mu_);  // collective n is in firsts_[n % kRemembered]
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_COLLECTIVE_AGREEMENT_H_
