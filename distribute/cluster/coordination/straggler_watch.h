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

// Finds the worker that slows down the others. In synchronous training, a step takes equally long
// on all workers, so step times do not reveal the straggler. But the other workers wait for it
// inside the collectives, while it does not wait. This is true whether it is slow inside steps or
// between them (input, callbacks). Not thread-safe.
class StragglerWatch {
 public:
  static constexpr absl::Duration kInterval = absl::Minutes(1);

  // Records a worker's heartbeat.
  void Beat(int worker, const coordination::Heartbeat& heartbeat, MonotonicTime now);
  // Stops watching the worker.
  void Remove(int worker);

  struct Straggler {
    int worker = -1;
    // The fraction of the time that would be saved if this worker were as fast as the median
    // worker.
    double cost = 0;
    absl::Duration interval;  // the length of the interval: the sum of the next three fields
    absl::Duration computed;  // inside steps, without waits
    absl::Duration between;   // between steps
    absl::Duration waited;    // for other workers
    absl::Duration median_waited;

    // Returns the rest of a line that begins with the worker's name.
    std::string Text() const;
  };
  // Returns, at the end of each interval, the worker that has cost the others more than 10 % of the
  // interval. Returns nullopt if there is none, and before the end of the interval. An interval
  // lasts kInterval, or longer if a worker needs more time to run ten steps. Must be called often.
  std::optional<Straggler> Find(MonotonicTime now);

 private:
  struct Sample {
    MonotonicTime time;
    uint64_t runs = 0;
    absl::Duration in_runs, waited;
  };
  struct Worker {
    Sample first, last;  // the interval's first and last sample
  };
  void BeginInterval(MonotonicTime now);

  MonotonicTime began_ = MonotonicTime::InfinitePast();
  bool is_interrupted_ = false;  // whether a new session has begun since the last Find
  std::map<int, Worker> workers_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_STRAGGLER_WATCH_H_
