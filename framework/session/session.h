// SPDX-License-Identifier: Apache-2.0
//
// Session: a graph made ready to run on a set of devices: its variables, and the steps prepared of
// it. Step: a prepared way to run it.
//
// NewSession of a strategy makes a session; it takes a snapshot of the graph, lays out its
// variables and runs their initialisers once. Prepare names feeds, fetches and targets; a plan is
// compiled at the first Run with a new set of feed shapes, and kept. Not thread-safe: one step of a
// session runs at a time.
#ifndef MIRRORFLOW_FRAMEWORK_SESSION_SESSION_H_
#define MIRRORFLOW_FRAMEWORK_SESSION_SESSION_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/compiler/compilation.h"
#include "framework/runtime/replica.h"
#include "framework/runtime/replica_team.h"
#include "framework/runtime/trace.h"
#include "framework/runtime/tuning_table.h"
#include "framework/runtime/variable_layout.h"
#include "framework/session/connection.h"
#include "framework/session/worker_group.h"

namespace mirrorflow {

class Session;

struct SessionOptions {
  // The seed of random ops that have none of their own.
  uint64_t seed = 0;
  // A bucket of gradients is closed before it grows above this; 0: what the devices ask for.
  int64_t bucket_bytes = 0;
  // How long one step may take before it is given up with DeadlineExceeded. A CPU looks between
  // kernels, now and then, and interrupts none.
  absl::Duration step_timeout = absl::Minutes(10);
  // How long connecting and agreeing with other workers may take.
  absl::Duration connect_timeout = absl::Minutes(5);
  bool pin_threads = true;
  // What the variables and one step may take on all local devices together, and its fetches on the
  // host; more is ResourceExhausted before any of it is allocated.
  int64_t max_bytes = int64_t{1} << 60;
  CompileOptions compile;
};

// Dependencies that the layers above inject: devices, kernels, the compiler's pipeline, and a way
// to connect the replicas.
struct SessionBackend {
  using CompileFn = absl::StatusOr<std::shared_ptr<const Program>> (*)(
      const Graph& graph, const GlobalSignature& signature, const VariableLayout& layout,
      const SessionBackend& backend, const CompileOptions& options);
  // For a replica with `rows[axis]` rows of each axis of the program, on a device with `traits`.
  // `tuning` is null without autotune.
  using CompilePlanFn = absl::StatusOr<std::shared_ptr<const Plan>> (*)(
      const Program& program, const std::vector<int64_t>& rows, const DeviceTraits& traits,
      TuningTable* tuning);

  std::vector<std::unique_ptr<Device>> devices;  // of the local replicas
  const OpRegistry* ops = nullptr;
  const KernelRegistry* kernels = nullptr;  // of the devices and of the host
  CompileFn compile = nullptr;
  CompilePlanFn compile_plan = nullptr;
  Topology topology;  // whose ranks of this worker are the local replicas
  // The ranks of a memory domain are a local team (Communicator::team), so they can share updates.
  bool has_teams = false;
  WorkerGroup* workers = nullptr;  // borrowed; null if this is the only worker
  ConnectFn connect;
};

// The fetched values of one Run, in the order of the fetches. Views, valid until the session's next
// Run; Tensor::Clone() keeps one. A fetch that differs between replicas (ReplicaIndex) has no value
// here: Step::PerReplica() has them.
using StepOutputs = absl::Span<const Tensor>;

struct RunOptions {
  // The rows of each replica of the world, for every feed that is split; empty: as even as
  // possible, the first replicas get one more. Zeros are fine.
  absl::Span<const int64_t> replica_rows = {};
  // The feeds of the Run after this, if they are known: they travel to the devices while this step
  // computes. Their memory must not change until then.
  absl::Span<const Tensor> next_feeds = {};
  // Feeds that are split have the rows of this worker's replicas alone, not of the global batch.
  // Without `replica_rows` each replica of the world then has as many rows as each of this worker.
  bool local_feeds = false;
};

struct PrepareOptions {
  // Some of the fetches: of these, where they are split over the replicas, each worker gets the
  // rows of its own replicas. Others are gathered from all workers.
  absl::Span<const Output> local_fetches = {};
};

// A compiled step, for `inspect` and `bench`.
struct StepPlans {
  std::shared_ptr<const Program> program;
  std::vector<std::shared_ptr<const Plan>> plans;  // by local replica; equal shares share one
};

class Step {
 public:
  Step() = default;
  // Runs one step on all replicas. `feeds` are global values in the order of Prepare. After an
  // error the variables that it writes are as they were before, or, if the step had begun to write
  // them, indeterminate. FailedPrecondition if it reads a variable that is, or that nothing has
  // initialised.
  absl::StatusOr<StepOutputs> Run(absl::Span<const Tensor> feeds, const RunOptions& options = {});
  // The same with a batch of a DistributedDataset, which knows the one after it.
  template <typename Batch>
  auto Run(const Batch& batch, RunOptions options = {})
      -> decltype(batch.next(), Run({}, options)) {
    options.next_feeds = batch.next();
    return Run(batch.components(), options);
  }
  // Compiles for feeds of these shapes, or finds what was compiled.
  absl::StatusOr<StepPlans> Compile(absl::Span<const Shape> feed_shapes,
                                    const RunOptions& options = {});
  // How long the host took to enqueue the last Run, of the first local replica; zero before that,
  // and on devices that are the host.
  absl::Duration host_time() const;
  // Every local replica's own value of fetch `i` (a copy). FailedPrecondition if since this step's
  // last Run any step of the session has run or failed, or a variable was assigned.
  absl::StatusOr<std::vector<Tensor>> PerReplica(int i) const;

 private:
  friend class Session;
  struct State;
  explicit Step(State* state) : state_(state) {}
  State* state_ = nullptr;  // owned by the session
};

class Session {
 public:
  static absl::StatusOr<std::unique_ptr<Session>> Create(const Graph& graph, SessionBackend backend,
                                                         SessionOptions options);
  ~Session();

  // A step that takes `feeds`, gives `fetches` and runs `targets`, all of the session's graph. With
  // several workers all of them prepare and run the same steps; before one runs for the first time
  // they compare what they have made of it, and a difference is an error that names it.
  absl::StatusOr<Step> Prepare(absl::Span<const Output> feeds, absl::Span<const Output> fetches,
                               absl::Span<const Operation> targets = {},
                               const PrepareOptions& options = {});
  // Prepares (once for equal arguments) and runs; for convenience.
  absl::StatusOr<std::vector<Tensor>> Run(absl::Span<const std::pair<Output, Tensor>> feeds,
                                          absl::Span<const Output> fetches,
                                          absl::Span<const Operation> targets = {});

  const VariableLayout& layout() const { return layout_; }
  int num_local_replicas() const { return static_cast<int>(replicas_.size()); }
  int world_size() const { return backend_.topology.world_size(); }

  // A failure in a step, on any worker, breaks the connection between the replicas on all workers.
  // The next Run connects them again, as a new incarnation, for which it waits for the other
  // workers; so does Reconnect. The variables stay as the step left them.
  const Connection& connection() const { return connection_; }
  absl::Status Reconnect();

  // How many steps have run, which random ops draw from: a training that goes on elsewhere with
  // this number draws the same. Equal on all workers.
  uint64_t step() const { return next_step_; }
  void SetStep(uint64_t step) { next_step_ = step; }

  // A variable is indeterminate after a step that failed while it updated variables, this one among
  // them, until it is assigned or a step overwrites it without reading it.

  // A copy of the variable: what every replica has, or of one that is synchronised on read the sum
  // over all replicas of the world, for which all workers have to call it. NotFound for an unknown
  // name, FailedPrecondition if it is indeterminate.
  absl::StatusOr<Tensor> ReadVariable(absl::string_view name);
  // The same as local replica `replica` has it.
  absl::StatusOr<Tensor> ReadVariable(absl::string_view name, int replica) const;
  // Sets the variable on all local replicas, or the sum over all. Each worker sets its own.
  absl::Status AssignVariable(absl::string_view name, const Tensor& value);
  // Whether it has a value that is not indeterminate.
  bool IsInitialized(absl::string_view name) const;

  // Until called with null, every Run adds what ran when to `trace`, which must outlive it.
  void TraceTo(TraceWriter* trace) { trace_ = trace; }

 private:
  friend class Step;
  struct Variant;
  enum class VariableState : char { kUnset, kSet, kIndeterminate };

  Session(SessionBackend backend, SessionOptions options);
  absl::Status Initialize(const Graph& graph);
  // Whether the replicas can have one copy of a variable.
  bool SharesVariables() const;
  absl::Status InitializeVariables();
  absl::Status RunInitializers(absl::Span<const int> variables, absl::Span<const Output> values);
  // The arguments of Prepare in the session's own graph.
  absl::StatusOr<StepSignature> Resolve(absl::Span<const Output> feeds,
                                        absl::Span<const Output> fetches,
                                        absl::Span<const Operation> targets) const;
  absl::Status CheckDeterminate(int variable) const;
  absl::StatusOr<Output> FindOutput(absl::string_view name) const;
  // Whether the variables are in the states that it was compiled for.
  bool HasStates(const Variant& variant) const;
  absl::StatusOr<Variant*> FindVariant(Step::State& step, absl::Span<const Shape> shapes,
                                       absl::Span<const int64_t> rows);
  absl::StatusOr<std::unique_ptr<Variant>> CompileVariant(Step::State& step,
                                                          std::vector<Shape> shapes,
                                                          std::vector<int64_t> rows);
  // Makes the plans of the local replicas, but for those that another variant has.
  absl::Status MakePlans(const Step::State& step, Variant& variant);
  absl::Status RunVariant(Variant& variant, absl::Span<const Tensor> feeds);
  void SetNextFeeds(Variant& variant, absl::Span<const Tensor> feeds);
  absl::Status CopyFetches(Variant& variant, int replica);
  int64_t FirstLocalRow(const Variant& variant, const PlannedFetch& fetch,
                        const BoundPlan& bound) const;
  const std::byte* ShareOf(const Variant& variant, const Tensor& feed, int replica,
                           size_t index) const;
  void PlaceViews(Variant& variant);
  absl::StatusOr<StepOutputs> RunStep(Step::State& step, absl::Span<const Tensor> feeds,
                                      const RunOptions& options);
  // Several workers alone.
  absl::Status TakeSeedOfWorker0();
  absl::Status TakeVariablesOfRank0();
  absl::Status AgreeOn(const Step::State& step, Variant& variant);
  absl::Status TakeTuningOfWorker0(absl::string_view agreement);
  absl::StatusOr<Tensor> SumOverRanks(int variable);
  // Calls work(replica) for each local replica, on its thread, where its device runs collectives.
  absl::Status OnEachReplica(absl::FunctionRef<absl::Status(Replica&, Lane&)> work);
  absl::Time ConnectDeadline() const { return absl::Now() + options_.connect_timeout; }
  void AddTrace(const Variant& variant, uint64_t step);

  SessionBackend backend_;
  SessionOptions options_;
  Graph graph_;
  VariableLayout layout_;
  std::unique_ptr<TuningTable> tuning_;  // with autotune
  std::vector<std::unique_ptr<Replica>> replicas_;
  Connection connection_;  // of the replicas, so it goes first
  std::unique_ptr<ReplicaTeam> team_;
  std::vector<std::unique_ptr<Step::State>> steps_;
  std::vector<VariableState> variable_states_;
  std::string indeterminate_cause_;    // the last error that left variables indeterminate
  const Variant* last_run_ = nullptr;  // whose values the replicas hold, if any
  uint64_t next_step_ = 0;
  int num_agreements_ = 0;  // of this incarnation
  TraceWriter* trace_ = nullptr;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_SESSION_SESSION_H_
