// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_STRAGGLER_WATCH_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_STRAGGLER_WATCH_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "distribute/cluster/coordination/coordination.pb.h"
#include "framework/core/monotonic_time.h"

namespace mirrorflow {

// Finds the worker that slows down the others. In synchronous training, every step takes as long on
// all workers, so its duration says nothing. But the others wait for the straggler inside the
// collectives, and the straggler waits for no one. Whether it is slow inside steps, or between them
// (input, callbacks), makes no difference. Not thread-safe.
class StragglerWatch {
 public:
  static constexpr absl::Duration kInterval = absl::Minutes(1);

  // Takes a heartbeat of a worker.
  void Beat(int worker, const coordination::Heartbeat& heartbeat, MonotonicTime now);
  // The worker no longer takes part.
  void Remove(int worker);

  struct Straggler {
    int worker = -1;
    // The part of the time by which each step would be shorter if it were as fast as the median
    // worker.
    double cost = 0;
    absl::Duration interval;  // that these times are of:
    absl::Duration computed;  // inside steps, without waits
    absl::Duration between;   // between steps
    absl::Duration waited;    // for others
    absl::Duration median_waited;

    // Continues a line that begins with the name of the worker.
    std::string Text() const;
  };
  // Call often. Returns, at the end of each interval, the worker that has cost the others more than
  // 10 % of it; nullopt if none has. An interval takes kInterval, or longer if steps do: until all
  // workers have run ten.
  std::optional<Straggler> Find(MonotonicTime now);

 private:
  struct Sample {
    MonotonicTime time;
    uint64_t runs = 0;
    absl::Duration in_runs, waited;
  };
  struct Worker {
    Sample first, last;  // of the interval
  };
  void BeginInterval(MonotonicTime now);

  MonotonicTime began_ = MonotonicTime::InfinitePast();
  bool is_interrupted_ = false;  // by a new session since the last Find
  std::map<int, Worker> workers_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_STRAGGLER_WATCH_H_
