// SPDX-License-Identifier: Apache-2.0
//
// Session runs the steps of a graph on the replicas of a strategy and holds its variables. A Step
// is one prepared way to run the graph.
//
//   MF_ASSIGN_OR_RETURN(auto session, strategy->NewSession(graph));
//   MF_ASSIGN_OR_RETURN(Step step, session->Prepare({images, labels}, {loss}, {train}));
//   MF_ASSIGN_OR_RETURN(StepOutputs outputs, step.Run({image_batch, label_batch}));
//
// NewSession takes a snapshot of the graph, lays out its variables and runs their initialisers
// once. A step is compiled at its first Run with a new set of feed shapes. Not thread-safe: a
// session runs one step at a time.
#ifndef MIRRORFLOW_FRAMEWORK_SESSION_SESSION_H_
#define MIRRORFLOW_FRAMEWORK_SESSION_SESSION_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/compiler/compile_options.h"
#include "framework/core/tensor.h"
#include "framework/graph/graph.h"

namespace mirrorflow {

class SessionState;
class TraceWriter;  // framework/runtime/trace.h
struct SessionBackend;
struct StepState;

struct SessionOptions {
  // Seeds random ops without a seed attribute.
  uint64_t seed = 0;
  // A bucket of gradients is closed before it grows above this; 0 selects it by the link between
  // memory domains or, with one domain, by the device.
  int64_t bucket_bytes = 0;
  // A step that takes longer fails with DeadlineExceeded. A CPU checks between kernels and never
  // interrupts one.
  absl::Duration step_timeout = absl::Minutes(10);
  // Limit for connecting to the other workers, which are ready.
  absl::Duration connect_timeout = absl::Minutes(5);
  // How long to wait for a worker that is alive but late, because it loads data or compiles.
  absl::Duration prepare_timeout = absl::Minutes(30);
  bool pin_threads = true;
  // Limit for the sum of the variables, one step on all local devices, and the step's fetches on
  // the host. If they need more, the call fails with ResourceExhausted before it allocates any.
  int64_t max_bytes = int64_t{1} << 60;
  CompileOptions compile = {};
};

// The fetched values of one Run, in the order of the fetches. They own their memory: keep them, or
// copies of single tensors, as long as needed. A fetch that differs between replicas (ReplicaIndex)
// has no value here; Step::PerReplica() returns it.
class StepOutputs {
 public:
  size_t size() const { return values_.size(); }
  bool empty() const { return values_.empty(); }
  // Requires i < size().
  const Tensor& operator[](size_t i) const {
    if (i >= values_.size()) [[unlikely]]
      OutOfRange(i);
    return values_[i];
  }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }
  operator absl::Span<const Tensor>() const { return values_; }  // NOLINT: what Step::Run takes

 private:
  friend class SessionState;
  [[noreturn]] void OutOfRange(size_t i) const;

  absl::InlinedVector<Tensor, 2> values_;
};

struct RunOptions {
  // The number of rows of each replica of the world, for every split feed. Zeros are allowed. If
  // empty, rows are split evenly, and the first replicas get one more.
  absl::Span<const int64_t> replica_rows = {};
  // The feeds of the next Run, if known: they are copied to the devices while this step computes.
  // Their memory must not change until that Run.
  absl::Span<const Tensor> next_feeds = {};
  // Split feeds hold only the rows of this worker's replicas, not the global batch. Without
  // `replica_rows`, every replica of the world then has as many rows as each replica of this
  // worker.
  bool local_feeds = false;
};

struct PrepareOptions {
  // A subset of the fetches. If such a fetch is split over the replicas, each worker gets only the
  // rows of its own replicas. All other fetches are gathered from all workers.
  absl::Span<const Output> local_fetches = {};
};

// A handle to a prepared step, cheap to copy. It may outlive its session; every call then fails
// with FailedPrecondition.
class Step {
 public:
  Step() = default;
  // Runs one step on all replicas. `feeds` are global values in the order of Prepare. After an
  // error, the variables that the step writes are unchanged, or indeterminate if it had begun to
  // write them. FailedPrecondition if the step reads a variable that is indeterminate or not
  // initialised.
  absl::StatusOr<StepOutputs> Run(absl::Span<const Tensor> feeds, const RunOptions& options = {});
  // Runs a batch of a DistributedDataset, which also knows the batch after it.
  template <typename Batch>
  auto Run(const Batch& batch, RunOptions options = {})
      -> decltype(batch.next(), Run({}, options)) {
    options.next_feeds = batch.next();
    options.local_feeds |= batch.has_local_rows();
    if (options.replica_rows.empty()) options.replica_rows = batch.replica_rows();
    return Run(batch.components(), options);
  }
  // The time the host took to enqueue the last Run on the first local replica. Zero before the
  // first Run, and on devices that run on the host.
  absl::Duration host_time() const;
  // A copy of every local replica's own value of fetch `i`. FailedPrecondition if, since the last
  // Run of this step, any step of the session has run or failed, or a variable was assigned.
  absl::StatusOr<std::vector<Tensor>> PerReplica(int i) const;

 private:
  friend class SessionState;
  explicit Step(std::shared_ptr<StepState> state) : state_(std::move(state)) {}

  std::shared_ptr<StepState> state_;
};

// The share of one rank in the sum of a variable that is synchronised on read.
struct VariablePart {
  int rank = 0;
  Tensor value;
};

class Session {
 public:
  // Called by strategies. `backend` supplies the devices and connects them (session_state.h).
  static absl::StatusOr<std::unique_ptr<Session>> Create(const Graph& graph, SessionBackend backend,
                                                         SessionOptions options);
  ~Session();

  // Prepares a step that takes `feeds`, returns `fetches` and runs `targets`, all of the session's
  // graph. All workers must prepare and run the same steps. Before a step first runs, they compare
  // its compiled form; a difference is an error that quotes it.
  absl::StatusOr<Step> Prepare(absl::Span<const Output> feeds, absl::Span<const Output> fetches,
                               absl::Span<const Operation> targets = {},
                               const PrepareOptions& options = {});
  // Prepares a step, once for equal arguments, and runs it.
  absl::StatusOr<std::vector<Tensor>> Run(absl::Span<const std::pair<Output, Tensor>> feeds,
                                          absl::Span<const Output> fetches,
                                          absl::Span<const Operation> targets = {});

  int num_local_replicas() const;
  int world_size() const;  // the replicas of all workers

  // Connects the replicas of all workers again after a failure, and waits for the other workers to
  // do the same. A failed step on any worker breaks the connection; the next Run also reconnects.
  // The variables stay as the step left them.
  absl::Status Reconnect();

  // The number of runs of steps that write variables, equal on all workers. It seeds the random ops
  // of such steps. Checkpoints hold it, so that training resumed elsewhere draws the same numbers.
  // Runs that write nothing (evaluation) have a separate counter.
  uint64_t step() const;
  void SetStep(uint64_t step);
  // The number of runs of steps that write nothing.
  uint64_t reading_step() const;
  void SetReadingStep(uint64_t step);

  // If a step fails while it updates variables, those that it writes become indeterminate. A
  // variable stays so until it is assigned or a step overwrites it without reading it.

  // The names of all variables, sorted.
  std::vector<std::string> VariableNames() const;
  // A copy of the variable's value, which is equal on every replica. If the variable is
  // synchronised on read, this is the sum over all replicas of the world, and all workers must call
  // it. NotFound for an unknown name, FailedPrecondition if the variable is indeterminate.
  absl::StatusOr<Tensor> ReadVariable(absl::string_view name);
  // Sets `copy` to the same, in its own memory if it has the variable's dtype and shape. Repeated
  // copies of large variables are several times as fast that way, because new memory costs page
  // faults.
  absl::Status CopyVariable(absl::string_view name, Tensor* copy);
  // A copy of the value on local replica `replica`.
  absl::StatusOr<Tensor> ReadVariable(absl::string_view name, int replica) const;
  // Sets the variable on all local replicas or, if it is synchronised on read, the sum over all.
  // All workers must call it, with the same value.
  absl::Status AssignVariable(absl::string_view name, const Tensor& value);
  // Sets the variables `names` on all workers to the values that worker 0 passes. All workers must
  // call it with the same names; only worker 0 needs the values.
  absl::Status AssignFromWorker0(absl::Span<const std::string> names,
                                 const std::map<std::string, Tensor>& values);
  // The parts of a variable that is synchronised on read: those of all ranks that differ from zero,
  // by rank. Their sum is the variable's value. All workers must call it; only worker 0 gets parts.
  // InvalidArgument for a variable that is synchronised on write.
  absl::StatusOr<std::vector<VariablePart>> ReadParts(absl::string_view name);
  // Sets each rank's part of such a variable: zero for a rank without one. All workers must call it
  // with the same ranks, in ascending order; only worker 0 needs the values. InvalidArgument for a
  // rank or a value that the variable cannot have.
  absl::Status AssignPartsFromWorker0(absl::string_view name, absl::Span<const VariablePart> parts);
  // Whether the variable has a value and is not indeterminate.
  bool IsInitialized(absl::string_view name) const;
  // Compares all replicas' copies of the variables, by the CRC-32C of their bytes. All workers must
  // call it, between the same steps. DataLoss, the same on all workers, if a copy differs: it names
  // the first such variable in the order of the layout, and the ranks by their checksums. Leaves
  // out variables that are synchronised on read, whose parts differ by design. Reads each copy
  // once; replicas that share a copy read it once together.
  absl::Status CheckReplicas();

  // Every later Run adds its timeline to `trace`, which must outlive it; null stops tracing.
  void TraceTo(TraceWriter* trace);
  // Stops tracing, and adds the timelines of all other workers to the trace of worker 0, which then
  // shows every replica of the world on worker 0's clock. Clocks are compared at barriers; the
  // trace says how far they may differ. All workers must call it, between the same steps, and must
  // have called TraceTo.
  absl::Status GatherTrace();

  // Layout, connection and compiled plans, for tools and tests (mirrorflow_debug.h).
  SessionState& state() { return *state_; }
  const SessionState& state() const { return *state_; }

 private:
  explicit Session(std::unique_ptr<SessionState> state);

  const std::unique_ptr<SessionState> state_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_SESSION_SESSION_H_
