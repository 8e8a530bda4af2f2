// SPDX-License-Identifier: Apache-2.0
//
// RankExchange runs blocking collectives between ranks, outside of steps. All workers must make the
// same calls in the same order. A failure breaks the connection, and every worker returns the first
// cause.
#ifndef MIRRORFLOW_FRAMEWORK_WORKERS_RANK_EXCHANGE_H_
#define MIRRORFLOW_FRAMEWORK_WORKERS_RANK_EXCHANGE_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/core/tensor.h"
#include "framework/runtime/run_progress.h"
#include "framework/runtime/variable_layout.h"
#include "framework/workers/connection.h"
#include "framework/workers/local_replicas.h"
#include "framework/workers/run_counters.h"

namespace mirrorflow {

// When a process entered and left a barrier, on its own clock.
struct Passage {
  int64_t enter_ns = 0;
  int64_t leave_ns = 0;
};

class RankExchange {
 public:
  struct Options {
    absl::Duration timeout;         // for each call
    absl::Duration report_timeout;  // for agreeing with the other workers on a failure's cause
  };
  // All references must outlive the exchange. `counters` supplies the step of a failure.
  RankExchange(LocalReplicas& replicas, Connection& connection, const RunCounters& counters,
               const Options& options)
      : replicas_(replicas), connection_(connection), counters_(counters), options_(options) {}

  LocalReplicas& replicas() const { return replicas_; }
  Connection& connection() const { return connection_; }

  // Calls work(replica, lane) for each local replica, on its thread, with its communication lane.
  absl::Status OnEachReplica(absl::FunctionRef<absl::Status(Replica&, Lane&)> work);

  absl::Status Barrier(absl::string_view name);
  // Returns this worker's times at several barriers between replicas. Clock offsets that are
  // estimated from them have a fraction of the error that worker-group barriers would give.
  absl::StatusOr<std::vector<Passage>> PassBarriers();
  // Returns the values of all ranks, concatenated in rank order. `own` holds the values of each
  // local replica, and their count is the same for all ranks.
  absl::StatusOr<std::vector<uint32_t>> AllGather(const std::vector<std::vector<uint32_t>>& own,
                                                  absl::string_view name);
  // Returns the `value` that the worker of rank `root` passes, with the variable's type and shape.
  absl::StatusOr<Tensor> Broadcast(const VariableInfo& variable, int root, const Tensor& value);
  // Returns the sum of the ranks' copies of the variable.
  absl::StatusOr<Tensor> Sum(const VariableInfo& variable);

 private:
  LocalReplicas& replicas_;
  Connection& connection_;
  const RunCounters& counters_;
  const Options options_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_WORKERS_RANK_EXCHANGE_H_
