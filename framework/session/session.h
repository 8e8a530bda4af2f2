// SPDX-License-Identifier: Apache-2.0
//
// Session holds the variables of a graph, and runs steps of the graph on the replicas of a
// strategy. A Step is a handle to a prepared set of feeds, fetches and targets.
//
//   MF_ASSIGN_OR_RETURN(auto session, strategy->NewSession(graph));
//   MF_ASSIGN_OR_RETURN(Step step, session->Prepare({images, labels}, {loss}, {train}));
//   MF_ASSIGN_OR_RETURN(StepOutputs outputs, step.Run({image_batch, label_batch}));
//
// NewSession takes a snapshot of the graph, lays out its variables and runs their initialisers
// once. Before the first step, all workers adopt rank 0's initial values, except for variables that
// have been assigned in the meantime, for example from a checkpoint. Until then, each worker reads
// its own values, which its processor may have rounded differently. A step is compiled when it
// first runs with a new combination of feed shapes and replicas' row counts. The session caches up
// to SessionOptions::max_cached_steps compiled steps, and evicts the least recently used one.
//
// Most variables are mirrored, that is, synchronised on write: all replicas have the same value
// after every step. A variable that is synchronised on read, such as the state of a metric, has a
// different part on each replica; its value is the sum of all parts, and is computed when the
// variable is read.
//
// If a step fails while it updates variables, the variables that it writes are indeterminate:
// reading one is an error until it is assigned, or until a step overwrites it without reading it.
//
// A session with one worker is thread-safe. On a single CPU replica, steps that write no variables
// run concurrently, each with its own memory for intermediate values. Steps that write variables,
// and calls such as ReadVariable and AssignVariable, are exclusive: they wait for the runs in
// progress, and later runs wait for them, in FIFO order. Every run therefore sees a consistent
// version of all variables. With several replicas, or on a GPU, runs execute one at a time. With
// several workers, a call returns FailedPrecondition while another thread's call is in progress,
// because all workers must make the same calls in the same order.
#ifndef MIRRORFLOW_FRAMEWORK_SESSION_SESSION_H_
#define MIRRORFLOW_FRAMEWORK_SESSION_SESSION_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"
#include "framework/core/tensor.h"
#include "framework/graph/graph.h"
#include "framework/session/session_options.h"
#include "framework/session/step.h"
#include "framework/session/variable_part.h"

namespace mirrorflow {

class Connection;       // framework/workers/connection.h
class Forms;            // framework/runtime/forms.h
class LocalReplicas;    // framework/workers/local_replicas.h
class RankExchange;     // framework/workers/rank_exchange.h
class RunnerLease;      // framework/session/runner_pool.h
class RunnerPool;       // framework/session/runner_pool.h
class StepCache;        // framework/session/step_cache.h
class StepCompiler;     // framework/session/step_compiler.h
class StepRunner;       // framework/session/step_runner.h
class TraceWriter;      // framework/runtime/trace.h
class VariableLayout;   // framework/runtime/variable_layout.h
class VariableStore;    // framework/session/variable_store.h
struct BoundStep;       // framework/session/step_runner.h
struct Elsewhere;       // framework/session/step_plans.h
struct Passage;         // framework/workers/rank_exchange.h
struct PlanElsewhere;   // framework/session/step_plans.h
struct RunLog;          // framework/session/step_runner.h
struct SessionBackend;  // framework/session/session_backend.h
struct StepPlans;       // framework/session/step_plans.h

struct PrepareOptions {
  // Fetches, each of which must also be among `fetches`, that the other workers do not need: a
  // local fetch that is sharded over the replicas returns only the rows of this worker's replicas.
  // All other fetches are gathered from all workers.
  absl::Span<const Output> local_fetches = {};
};

class Session {
 public:
  // Called by strategies. `backend` supplies the devices and connects them (session_backend.h).
  static absl::StatusOr<std::unique_ptr<Session>> Create(const Graph& graph, SessionBackend backend,
                                                         SessionOptions options);
  ~Session();

  // Prepares a step that takes `feeds`, returns `fetches` and runs `targets`, all from the
  // session's graph. Step::Run takes the feeds and returns the fetches in these orders. All workers
  // must prepare and run the same steps. Before a step first runs, the workers compare its compiled
  // form; if they differ, Run's error quotes the difference.
  //
  // Returns InvalidArgument, naming the argument, if an output or operation is invalid, belongs to
  // another graph or was added after NewSession, if a feed is given twice, or if a fetch is the
  // handle of a variable. Compiles nothing: errors in shapes that depend on feeds occur in
  // Step::Run.
  absl::StatusOr<Step> Prepare(absl::Span<const Output> feeds, absl::Span<const Output> fetches,
                               absl::Span<const Operation> targets = {},
                               const PrepareOptions& options = {});
  // Prepares a step and runs it once. Calls with the same feeds, fetches and targets share one
  // prepared step. Returns the fetches, or an error of Prepare or Step::Run.
  absl::StatusOr<std::vector<Tensor>> Run(absl::Span<const std::pair<Output, Tensor>> feeds,
                                          absl::Span<const Output> fetches,
                                          absl::Span<const Operation> targets = {});

  int num_local_replicas() const;
  int world_size() const;  // total number of replicas on all workers

  // Reconnects the replicas of all workers after a failure, and blocks until the other workers do
  // the same. A step that fails on any worker breaks the connection; the next Run also reconnects.
  // Does not change the variables.
  absl::Status Reconnect();

  // Returns how often steps that write variables have run, which is equal on all workers. The count
  // seeds the random ops of such steps. Checkpoints store it, so that resumed training draws the
  // same random numbers. Runs that write nothing (evaluation) have a separate counter.
  uint64_t step() const;
  void SetStep(uint64_t step);
  // Like step(), but counts runs of steps that write no variables.
  uint64_t reading_step() const;
  void SetReadingStep(uint64_t step);

  // Returns the names of all variables, sorted.
  std::vector<std::string> VariableNames() const;
  // Returns a copy of the variable's value, which is equal on every replica. Before the first step
  // or CheckReplicas(), an initial value can differ between workers whose processors round
  // differently. For a variable that is synchronised on read, returns the sum over all replicas of
  // all workers, and all workers must make the call. Returns NotFound for an unknown name, and
  // FailedPrecondition if the variable is indeterminate.
  absl::StatusOr<Tensor> ReadVariable(absl::string_view name);
  // Like ReadVariable, but reuses the memory of `*copy` if it has the variable's dtype and shape.
  // Repeated copies of large variables are then several times faster, because they cause no page
  // faults.
  absl::Status CopyVariable(absl::string_view name, Tensor* copy);
  // Stores one consistent snapshot of all variables that have a value in `*copies`, keyed by name,
  // and removes all other entries. Returns step(). All workers must make the call; only worker 0
  // receives copies.
  absl::StatusOr<uint64_t> CopyVariables(std::map<std::string, Tensor>* copies);
  // Returns a copy of the variable's value on local replica `replica`, which must be below
  // num_local_replicas(). Returns the errors of the other overload.
  absl::StatusOr<Tensor> ReadVariable(absl::string_view name, int replica) const;
  // Sets the variable on all local replicas. If it is synchronised on read, sets its sum over all
  // replicas of all workers. All workers must call it with the same value. Returns NotFound for an
  // unknown name, and InvalidArgument if the value does not have the variable's dtype and shape.
  absl::Status AssignVariable(absl::string_view name, const Tensor& value);
  // Assigns several variables, by name, atomically: concurrent runs see either all of the new
  // values or none. Returns the errors of AssignVariable; it then changes nothing.
  absl::Status AssignVariables(const std::map<std::string, Tensor>& values);
  // Sets the variables `names` on all workers to the values that worker 0 passes. All workers must
  // call it with the same names; only worker 0 needs the values. Returns NotFound for an unknown
  // name.
  absl::Status AssignFromWorker0(absl::Span<const std::string> names,
                                 const std::map<std::string, Tensor>& values);
  // Returns the non-zero parts of a variable that is synchronised on read, in rank order. Their sum
  // is the variable's value. All workers must call it; only worker 0 receives parts. Returns
  // InvalidArgument for a variable that is synchronised on write.
  absl::StatusOr<std::vector<VariablePart>> ReadParts(absl::string_view name);
  // Sets each rank's part of a variable that is synchronised on read; the parts of ranks not listed
  // become zero. All workers must call it with the same ranks, in ascending order; only worker 0
  // needs the values. Returns InvalidArgument for an invalid rank or value.
  absl::Status AssignPartsFromWorker0(absl::string_view name, absl::Span<const VariablePart> parts);
  // Returns whether the variable has a value and is not indeterminate.
  bool IsInitialized(absl::string_view name) const;
  // Compares all replicas' copies of the variables by the CRC-32C of their bytes. All workers must
  // make the call between the same steps. If a copy differs, all workers return the same DataLoss
  // error, which names the first variable that differs, in layout order, and lists the ranks by
  // checksum. Skips variables that are synchronised on read, whose parts differ by design. Reads
  // each copy once, even if several replicas share it.
  absl::Status CheckReplicas();

  // Makes every later Run add its timeline to `trace`, which must stay valid while the session is
  // traced; null stops tracing. Waits for the runs in progress; returns DeadlineExceeded or
  // FailedPrecondition if it cannot wait until they finish.
  absl::Status TraceTo(TraceWriter* trace);
  // Stops tracing, and adds the timelines of all other workers to worker 0's trace, which then
  // shows every replica of every worker on worker 0's clock. The workers compare their clocks at
  // barriers, and the trace states the maximum error. All workers must make the call between the
  // same steps, after TraceTo.
  absl::Status GatherTrace();

  // Returns how many bytes the variables of the local replicas occupy.
  int64_t variable_bytes() const;
  // Returns how many bytes runs have reserved for intermediate values and fetches. No other thread
  // may use the session during the call.
  int64_t reserved_bytes() const;

  // For tools, tests and higher layers (mirrorflow_debug.h).
  const Forms& forms() const;
  const VariableLayout& layout() const;
  const Connection& connection() const { return *connection_; }
  uint64_t seed() const { return options_.seed; }
  // Returns the deadline for waiting, from now on, for workers that may still be loading data or
  // compiling (SessionOptions::prepare_timeout).
  MonotonicTime PrepareDeadline() const { return MonotonicTime::Now() + options_.prepare_timeout; }
  // Returns 0, 1, 2, … on successive calls, to number objects that all workers create in the same
  // order, such as preemption handlers. A process-wide counter would differ on a restarted worker.
  int NewHandlerNumber() { return num_handlers_++; }
  // Passes several barriers together with all other workers, and returns when this worker entered
  // and left them.
  absl::StatusOr<std::vector<Passage>> PassBarriers();
  const StepCache& cache() const { return *cache_; }

  // These implement Step and step_plans.h for this session's steps.
  absl::StatusOr<StepOutputs> RunStep(PreparedStep& step, absl::Span<const Tensor> feeds,
                                      const RunOptions& options);
  absl::StatusOr<std::vector<Tensor>> PerReplica(const PreparedStep& step, int fetch) const;
  absl::StatusOr<StepPlans> Compile(const PreparedStep& step, absl::Span<const Shape> feed_shapes,
                                    const RunOptions& options);
  absl::StatusOr<PlanElsewhere> CompileFor(const PreparedStep& step, std::vector<Shape> feed_shapes,
                                           const Elsewhere& elsewhere) const;

 private:
  Session(const Graph& graph, SessionBackend& backend, const SessionOptions& options);
  absl::Status Initialize(SessionBackend& backend);
  // Runs the initialisers locally. The first step replaces their results with rank 0's.
  absl::Status InitializeVariables();
  std::unique_ptr<StepRunner> NewRunner(std::shared_ptr<LocalReplicas> replicas);
  // Creates a runner for another thread, which uses a clone of the device and the same variables.
  absl::StatusOr<std::unique_ptr<StepRunner>> CloneRunner();

  // Leases the session exclusively and finishes all updates.
  absl::StatusOr<RunnerLease> Exclude() const;
  // Reconnects after a failure.
  absl::Status EnsureConnected(StepRunner& runner);
  absl::Status Reconnect(StepRunner& runner);

  // Leases a runner and runs the step. If the lease is shared but the step turns out to write
  // variables, runs nothing and sets `*again`.
  absl::Status TryStep(PreparedStep& step, absl::Span<const Tensor> feeds,
                       const RunOptions& options, StepOutputs* outputs, bool* again);
  absl::Status RunOn(const RunnerLease& lease, PreparedStep& step, absl::Span<const Tensor> feeds,
                     const RunOptions& options, StepOutputs* outputs, bool* again);
  absl::Status AgreeOn(const PreparedStep& step, StepRunner& runner, BoundStep& bound);
  MonotonicTime ConnectDeadline() const { return MonotonicTime::Now() + options_.connect_timeout; }

  SessionOptions options_;
  const Graph graph_;
  const bool can_share_variables_;
  const std::unique_ptr<RunLog> log_;
  const std::unique_ptr<StepCompiler> compiler_;
  std::shared_ptr<LocalReplicas> replicas_;
  const std::unique_ptr<Connection> connection_;  // points to the replicas
  std::unique_ptr<RankExchange> exchange_;
  std::unique_ptr<VariableStore> variables_;
  std::unique_ptr<StepCache> cache_;
  std::unique_ptr<RunnerPool> runners_;
  Mutex steps_mutex_;
  std::vector<std::shared_ptr<PreparedStep>> steps_ ABSL_GUARDED_BY(steps_mutex_);
  int num_agreements_ = 0;       // in this incarnation
  int num_gathered_traces_ = 0;  // in this incarnation
  int num_handlers_ = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_SESSION_SESSION_H_
