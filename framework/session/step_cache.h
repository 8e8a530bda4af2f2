// SPDX-License-Identifier: Apache-2.0
//
// StepCache: an LRU cache of a session's compiled steps, keyed by step, feed shapes, row shards and
// variable states. All workers evict the same steps. Thread-safe; compilations are serialised, but
// do not block lookups.
#ifndef MIRRORFLOW_FRAMEWORK_SESSION_STEP_CACHE_H_
#define MIRRORFLOW_FRAMEWORK_SESSION_STEP_CACHE_H_

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/compiler/row_shards.h"
#include "framework/core/mutex.h"
#include "framework/runtime/plan.h"
#include "framework/session/prepared_step.h"
#include "framework/session/step_compiler.h"
#include "framework/session/variable_store.h"
#include "framework/workers/local_replicas.h"

namespace mirrorflow {

// A step compiled for one set of feed shapes and row shards.
struct CompiledStep {
  size_t step = 0;                    // PreparedStep::index
  std::vector<Shape> shapes;          // global feed shapes
  std::vector<int64_t> replica_rows;  // as requested; if empty, split evenly
  RowShards rows;                     // by axis and rank
  // The variable states that the step depends on (VarIsInitializedOp): pairs of a variable and
  // whether it has a value.
  std::vector<std::pair<int, bool>> states;
  std::shared_ptr<const Program> program;
  std::vector<std::shared_ptr<const Plan>>
      plans;                     // by local replica; replicas with equal shards share a plan
  int tuning_version = 0;        // tuning table version that `plans` used
  std::vector<int> reads_first;  // variables that must have a value before the step
  std::vector<int> writes;
  int64_t fetch_bytes = 0;  // size of the fetches on the host
  // Describes the step that was evicted to make room for this one. Empty if no step was evicted.
  std::string replaced;
  // The incarnation when the workers agreed on the step; 0 if they have not agreed.
  uint64_t agreed = 0;
  // If true, the cache has evicted the step, and runners must release the memory that they hold for
  // it.
  std::atomic<bool> evicted{false};
};

// Identifies a compiled step.
struct StepKey {
  const PreparedStep& step;
  absl::Span<const Shape> shapes;  // global feed shapes
  absl::Span<const int64_t> replica_rows;
  VariableStore::States states;
};

class StepCache {
 public:
  struct Options {
    int max_steps = 128;
    int64_t max_bytes = int64_t{1} << 60;  // limit for the variables and one step
    // The number of replicas on all workers. Rows are sharded over them.
    int world_size = 1;
  };
  // All arguments must outlive the cache. Plans are compiled for `replicas`.
  StepCache(StepCompiler& compiler, const VariableLayout& layout, const LocalReplicas& replicas,
            const Options& options)
      : compiler_(compiler), layout_(layout), replicas_(replicas), options_(options) {}

  // Returns the compiled step and marks it as the most recently used. Compiles it on a cache miss.
  absl::StatusOr<std::shared_ptr<CompiledStep>> Get(const StepKey& key);
  // Like Get, but leaves the cache unchanged.
  absl::StatusOr<std::shared_ptr<const CompiledStep>> Peek(const StepKey& key);
  // Marks a step that a runner already holds as the most recently used, unless it has been evicted.
  void Touch(const CompiledStep& step) {
    if (newest_.load(std::memory_order_relaxed) != &step) MoveToFront(step);
  }
  // Recompiles a step's plans if the tuning table has changed since they were compiled.
  absl::Status Retune(CompiledStep& step);
  // Evicts all steps.
  void Clear();

  // Returns the number of evictions so far. When it changes, runners look for evicted steps.
  uint64_t evictions() const { return evictions_.load(std::memory_order_acquire); }
  size_t size() const;

  // Returns whether the step was compiled for these variable states.
  static bool HasStates(const CompiledStep& step, VariableStore::States states);

 private:
  // The steps, most recently used first.
  using List = std::list<std::shared_ptr<CompiledStep>>;

  std::shared_ptr<CompiledStep> Find(const StepKey& key, bool touch);
  absl::StatusOr<std::shared_ptr<CompiledStep>> Compile(const StepKey& key);
  // Makes the local replicas' plans. Reuses plans of other variants if possible.
  absl::Status MakePlans(CompiledStep& step);
  void Insert(const std::shared_ptr<CompiledStep>& step);
  void DropLast() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MoveToFront(const CompiledStep& step);
  void MoveToFront(List::iterator position) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns all variants of the step for these shapes.
  std::vector<std::shared_ptr<CompiledStep>> VariantsOf(size_t step,
                                                        absl::Span<const Shape> shapes) const;

  StepCompiler& compiler_;
  const VariableLayout& layout_;
  const LocalReplicas& replicas_;
  const Options options_;
  Mutex compiling_ ABSL_ACQUIRED_BEFORE(mutex_);
  mutable Mutex mutex_;
  List steps_ ABSL_GUARDED_BY(mutex_);
  // Iterators into steps_, keyed by a hash of step and shapes.
  std::unordered_multimap<size_t, List::iterator> by_key_ ABSL_GUARDED_BY(mutex_);
  std::atomic<const CompiledStep*> newest_{nullptr};  // the first of steps_
  std::atomic<uint64_t> evictions_{0};
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_SESSION_STEP_CACHE_H_
