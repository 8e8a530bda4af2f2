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
// on all workers, so step times reveal nothing. But the others wait for the straggler inside the
// collectives, and the straggler does not wait. This holds whether it is slow inside steps or
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
    // The fraction of the time that each step would save if this worker were as fast as the median
    // worker.
    double cost = 0;
    absl::Duration interval;  // which the following times divide:
    absl::Duration computed;  // inside steps, without waits
    absl::Duration between;   // between steps
    absl::Duration waited;    // for others
    absl::Duration median_waited;

    // Continues a line that begins with the name of the worker.
    std::string Text() const;
  };
  // Returns, at the end of each interval, the worker that has cost the others more than 10 % of the
  // interval; nullopt if none has, and at other times. An interval lasts kInterval, or longer if
  // all workers need more time to run ten steps. Call often.
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
