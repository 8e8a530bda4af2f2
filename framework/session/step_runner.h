// SPDX-License-Identifier: Apache-2.0
//
// StepRunner: runs compiled steps on replicas, one step at a time. It binds the feeds, runs the
// replicas, returns the outputs, and finds the cause if replicas fail. A session has one runner per
// concurrent run; runners share the variables and the compiled steps.
#ifndef MIRRORFLOW_FRAMEWORK_SESSION_STEP_RUNNER_H_
#define MIRRORFLOW_FRAMEWORK_SESSION_STEP_RUNNER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/core/buffer.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/tensor.h"
#include "framework/runtime/run_progress.h"
#include "framework/session/prepared_step.h"
#include "framework/session/step.h"
#include "framework/session/step_cache.h"
#include "framework/session/step_tracer.h"
#include "framework/session/variable_store.h"
#include "framework/workers/connection.h"
#include "framework/workers/local_replicas.h"
#include "framework/workers/run_counters.h"

namespace mirrorflow {

struct BoundStep;

// State that all of a session's runners share.
struct RunLog {
  RunCounters counters;
  // The last step that ran. The replicas of its runner still hold its values. Null if a variable
  // has been assigned since.
  std::atomic<const BoundStep*> last_run{nullptr};
  // Null unless the session is traced. Changes only while no step is running.
  std::unique_ptr<StepTracer> tracer;
};

// Returns the random stream of a run that follows `count` runs of the same kind. Runs that write
// nothing use separate streams, so they never change the random numbers that training draws.
inline uint64_t StreamOfRun(uint64_t count, bool writes) {
  return writes ? count : count | uint64_t{1} << 63;
}

// A compiled step bound to the memory of one runner.
struct BoundStep {
  std::shared_ptr<CompiledStep> compiled;
  std::shared_ptr<const LocalReplicas> replicas;  // the runner's replicas
  std::vector<std::unique_ptr<BoundPlan>> plans;  // by local replica
  std::vector<int64_t> feed_row_bytes;            // by feed: bytes per row; 0 if not sharded
  std::vector<Shape> fed_shapes;  // last feeds; only this worker's rows if `local_feeds`
  bool local_feeds = false;
  std::vector<Tensor> next_feeds;        // feeds of the next Run
  bool announces_next = false;           // true if the next Run's feeds are known
  std::vector<Tensor> outputs;           // of the last run; without a value if replicas differ
  std::vector<BufferPool> output_pools;  // by output; unused for inline scalars
  uint64_t arena_moves = 0;              // value when `plans` were last recorded
  bool checks_deadline = true;           // true if any of `plans` checks its deadline
  std::vector<absl::Status> statuses;    // by local replica
  std::vector<std::vector<TraceSpan>> spans;
};

class StepRunner {
 public:
  struct Options {
    uint64_t seed = 0;
    absl::Duration step_timeout = absl::Minutes(10);
    absl::Duration report_timeout =
        absl::Minutes(5);  // time limit for agreeing on the cause of a failure
  };
  // `connection` and all later arguments must outlive the runner.
  StepRunner(std::shared_ptr<LocalReplicas> replicas, Connection& connection,
             VariableStore& variables, StepCache& cache, RunLog& log, const Options& options)
      : replicas_(std::move(replicas)),
        reads_host_memory_(replicas_->first().device().traits().host_memory),
        connection_(connection),
        variables_(variables),
        cache_(cache),
        log_(log),
        options_(options) {}

  // Returns the step, compiled for these feeds and bound to this runner's replicas. Returns
  // InvalidArgument if the feeds do not match the step, and FailedPrecondition if the step reads a
  // variable without a value. The result is valid until the next call to Bind or Rebind.
  absl::StatusOr<BoundStep*> Bind(const PreparedStep& step, absl::Span<const Tensor> feeds,
                                  const RunOptions& options);
  // Rebinds the step if its plans have changed.
  absl::Status Rebind(BoundStep& bound);
  // Makes all replicas re-record their steps, because the replicas of other workers do.
  void MoveArenas() { ++arena_moves_; }

  // Runs a bound step, and stores the outputs in `bound`. `feeds` must have the shapes that the
  // step was bound for.
  absl::Status Run(BoundStep& bound, absl::Span<const Tensor> feeds, const RunOptions& options);
  // Finishes updates that the last run left in flight. Must be called before anything other than
  // the same step uses the variables.
  absl::Status FinishUpdates();
  // Drops the recordings, because they use the communicators, and abandons updates in flight. Must
  // be called before the communicators are replaced.
  void Disconnect();

  // Returns whether this is the last step that ran.
  bool ran_last(const BoundStep& bound) const { return last_run_ == &bound; }
  // Releases evicted steps, after any work that still uses them has finished.
  absl::Status DropEvicted();

  // Returns the memory that this runner holds once the step has run: the arena, sized for the
  // largest step so far, and the step's fetches.
  int64_t BytesWith(const BoundStep& bound) const;
  // Returns how much memory this runner may use without a new reservation. RunnerPool accounts for
  // it.
  int64_t reserved_bytes() const { return reserved_bytes_; }
  void set_reserved_bytes(int64_t bytes) { reserved_bytes_ = bytes; }
  // Frees the memory of intermediate values and fetches, and clears the reservation.
  void FreeMemory();

 private:
  // The compiled variants of a prepared step.
  struct Variants {
    BoundStep* last = nullptr;  // the most recently bound
    std::vector<std::unique_ptr<BoundStep>> bound;
  };

  // Checks the feeds. Sets `*same` to true if `bound`, which may be null, was bound for the feeds'
  // shapes.
  absl::Status CheckFeeds(const PreparedStep& step, absl::Span<const Tensor> feeds,
                          const BoundStep* bound, bool* same) const;
  absl::StatusOr<BoundStep*> BindOther(const PreparedStep& step, Variants& variants,
                                       absl::Span<const Tensor> feeds, const RunOptions& options,
                                       bool local_feeds);
  absl::StatusOr<std::unique_ptr<BoundStep>> MakeBound(std::shared_ptr<CompiledStep> compiled);
  absl::Status RunBound(BoundStep& bound, absl::Span<const Tensor> feeds);
  absl::Status RunReplica(BoundStep& bound, int replica, absl::Span<const Tensor> feeds,
                          uint64_t step, MonotonicTime deadline);
  // Handles a run that failed with `status` on a replica. Returns the error that all workers agree
  // on.
  absl::Status FailRun(BoundStep& bound, uint64_t step, const absl::Status& status,
                       bool lost_updates);
  void SetNextFeeds(BoundStep& bound, absl::Span<const Tensor> feeds) const;
  // Returns whether a local replica provides output `i` or a shard of it.
  static bool Provides(const Plan& plan, int replica, size_t i);
  static void CopyFetches(BoundStep& bound, int replica);
  static absl::Status MakeOutputs(BoundStep& bound);
  static void FreeOutputs(BoundStep& bound);
  // Records that the last step's values are no longer available.
  void ForgetLastRun();
  void AddTrace(const BoundStep& bound, uint64_t step);

  const std::shared_ptr<LocalReplicas> replicas_;
  const bool reads_host_memory_;  // if true, feeds need no copy
  Connection& connection_;
  VariableStore& variables_;
  StepCache& cache_;
  RunLog& log_;
  const Options options_;
  std::vector<Variants> variants_;   // by PreparedStep::index
  BoundStep* last_run_ = nullptr;    // the only step with outputs; may be null
  BoundStep* unfinished_ = nullptr;  // the step whose last run left updates in flight, or null
  uint64_t arena_moves_ = 0;         // how often a replica's arena has moved
  uint64_t evictions_ = 0;           // how many cache evictions have been handled
  int64_t reserved_bytes_ = 0;
};

// Returns copies of a fetch's values on all local replicas, from the last step that ran.
absl::StatusOr<std::vector<Tensor>> ValuesPerReplica(const BoundStep& last_run, int fetch);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_SESSION_STEP_RUNNER_H_
