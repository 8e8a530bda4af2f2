// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_FRAMEWORK_SESSION_STEP_H_
#define MIRRORFLOW_FRAMEWORK_SESSION_STEP_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/core/tensor.h"
#include "framework/data/distributed_batch.h"

namespace mirrorflow {

struct PreparedStep;  // framework/session/prepared_step.h

// The fetched values of one Run, in the order of the fetches. They own their memory: the outputs,
// and copies of individual tensors, remain valid for as long as the caller keeps them. A fetch that
// differs between replicas (ReplicaIndex) has no value here; call Step::PerReplica() for it.
class StepOutputs {
 public:
  StepOutputs() = default;
  void assign(absl::Span<const Tensor> values) { values_.assign(values.begin(), values.end()); }

  size_t size() const { return values_.size(); }
  bool empty() const { return values_.empty(); }
  // Terminates the process unless i < size().
  const Tensor& operator[](size_t i) const {
    if (i >= values_.size()) [[unlikely]]
      OutOfRange(i);
    return values_[i];
  }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }
  operator absl::Span<const Tensor>() const { return values_; }  // NOLINT: what Step::Run takes

 private:
  [[noreturn]] void OutOfRange(size_t i) const;

  absl::InlinedVector<Tensor, 2> values_;
};

struct RunOptions {
  // The row counts of all replicas of all workers, by rank; they apply to every split feed, that
  // is, every feed whose placeholder has an unknown leading dimension. Zeros are allowed. If empty,
  // rows are split evenly; if a remainder is left, each of the first replicas takes one extra row.
  absl::Span<const int64_t> replica_rows = {};
  // The feeds of the next Run, if known. They are prefetched to the devices while this step
  // computes, and must not change until that Run.
  absl::Span<const Tensor> next_feeds = {};
  // If true, split feeds hold only the rows of this worker's replicas, not the global batch.
  // Without `replica_rows`, every replica of every worker then has as many rows as each replica of
  // this worker.
  bool local_feeds = false;
};

// A handle to a prepared step, which is cheap to copy. It may outlive its session, but every call
// then fails with FailedPrecondition. Thread-safe like its session (session.h).
class Step {
 public:
  Step() = default;
  // Called by Session::Prepare.
  explicit Step(std::shared_ptr<PreparedStep> prepared) : prepared_(std::move(prepared)) {}

  // Runs one step on all replicas. `feeds` are global values, in the order of Session::Prepare's
  // `feeds`. After an error, the variables that the step writes are unchanged, or indeterminate
  // (session.h) if it had started to write them.
  //
  // Returns InvalidArgument if a feed's dtype or shape does not match its placeholder, or if an op
  // rejects its operands. Returns Unimplemented if a shape or operand that must be known when the
  // step is compiled depends on data. Returns ResourceExhausted if the step needs more memory than
  // max_bytes, and DeadlineExceeded if it takes longer than step_timeout; both are options of the
  // strategy. Returns FailedPrecondition if the step reads a variable that is indeterminate or not
  // initialised, or if the session has several workers and another thread is using it.
  // docs/errors.md lists the errors that the loss of a worker causes.
  absl::StatusOr<StepOutputs> Run(absl::Span<const Tensor> feeds, const RunOptions& options = {});
  absl::StatusOr<StepOutputs> Run(std::initializer_list<Tensor> feeds,
                                  const RunOptions& options = {}) {
    return Run(absl::Span<const Tensor>(feeds), options);
  }
  // Runs the step on a batch of a DistributedDataset, whose components are the feeds, and
  // prefetches the next batch. Returns the errors of Run.
  absl::StatusOr<StepOutputs> Run(const DistributedBatch& batch, RunOptions options = {});
  // Returns how long the host took to enqueue the last Run on the first local replica. It is zero
  // before the first Run, and on devices that compute on the host.
  absl::Duration host_time() const;
  // Returns copies of fetch `i`'s values on all local replicas, in rank order. Returns
  // InvalidArgument if there is no fetch `i`. Returns FailedPrecondition if any step of the session
  // has run or failed, or a variable was assigned, since the last Run of this step.
  absl::StatusOr<std::vector<Tensor>> PerReplica(int i) const;

  // For tools and tests (step_plans.h). Returns null for a step that was not prepared.
  PreparedStep* prepared() const { return prepared_.get(); }

 private:
  std::shared_ptr<PreparedStep> prepared_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_SESSION_STEP_H_
