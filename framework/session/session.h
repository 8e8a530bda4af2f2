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

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/compiler/compilation.h"
#include "framework/runtime/replica.h"
#include "framework/runtime/replica_team.h"
#include "framework/runtime/trace.h"
#include "framework/runtime/variable_layout.h"

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
  bool pin_threads = true;
  // What the variables and one step may take on all local devices together, and its fetches on the
  // host; more is ResourceExhausted before any of it is allocated.
  int64_t max_bytes = int64_t{1} << 60;
  CompileOptions compile;
};

// What a session needs from above the runtime: devices, kernels, the compiler's pipeline and a way
// to connect the replicas.
struct SessionBackend {
  using CompileFn = absl::StatusOr<std::shared_ptr<const Program>> (*)(
      const Graph& graph, const GlobalSignature& signature, const VariableLayout& layout,
      const SessionBackend& backend, const CompileOptions& options);
  // For a replica with `rows[axis]` rows of each axis of the program, on a device with `traits`.
  using CompilePlanFn = absl::StatusOr<std::shared_ptr<const Plan>> (*)(
      const Program& program, const std::vector<int64_t>& rows, const DeviceTraits& traits);
  using ConnectFn = std::function<absl::StatusOr<std::vector<std::unique_ptr<Communicator>>>()>;

  std::vector<std::unique_ptr<Device>> devices;  // of the local replicas
  const OpRegistry* ops = nullptr;
  const KernelRegistry* kernels = nullptr;  // of the devices and of the host
  CompileFn compile = nullptr;
  CompilePlanFn compile_plan = nullptr;
  ConnectFn connect;  // one communicator a local replica
  // Whether their collectives can be of the kind Update.
  bool ranks_share_memory = false;
  int world_size = 1;
  int first_rank = 0;  // of the local replicas
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
};

// What there is to know of a compiled step; for `inspect` and `bench`.
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

  // A step that takes `feeds`, gives `fetches` and runs `targets`, all of the session's graph.
  absl::StatusOr<Step> Prepare(absl::Span<const Output> feeds, absl::Span<const Output> fetches,
                               absl::Span<const Operation> targets = {});
  // Prepares (once for equal arguments) and runs; for convenience.
  absl::StatusOr<std::vector<Tensor>> Run(absl::Span<const std::pair<Output, Tensor>> feeds,
                                          absl::Span<const Output> fetches,
                                          absl::Span<const Operation> targets = {});

  const VariableLayout& layout() const { return layout_; }
  int num_local_replicas() const { return static_cast<int>(replicas_.size()); }
  int world_size() const { return backend_.world_size; }

  // A variable is indeterminate after a step that failed while it updated variables, this one among
  // them, until it is assigned or a step overwrites it without reading it.

  // A copy of the variable: what every replica has, or of one that is synchronised on read the sum
  // over the replicas. NotFound for an unknown name, FailedPrecondition if it is indeterminate.
  absl::StatusOr<Tensor> ReadVariable(absl::string_view name) const;
  // The same as local replica `replica` has it.
  absl::StatusOr<Tensor> ReadVariable(absl::string_view name, int replica) const;
  // Sets the variable on all local replicas, or the sum over them.
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
  absl::Status RunVariant(Variant& variant, absl::Span<const Tensor> feeds);
  void SetNextFeeds(Variant& variant, absl::Span<const Tensor> feeds);
  absl::Status CopyFetches(Variant& variant, int replica);
  void PlaceViews(Variant& variant);
  absl::Status AfterFailure(Variant& variant, const absl::Status& status);
  absl::Status Connect();
  void AddTrace(const Variant& variant, uint64_t step);

  SessionBackend backend_;
  SessionOptions options_;
  Graph graph_;
  VariableLayout layout_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::unique_ptr<ReplicaTeam> team_;
  std::vector<std::unique_ptr<Step::State>> steps_;
  std::vector<VariableState> variable_states_;
  std::string indeterminate_cause_;    // the last error that left variables indeterminate
  const Variant* last_run_ = nullptr;  // whose values the replicas hold, if any
  uint64_t next_step_ = 0;
  TraceWriter* trace_ = nullptr;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_SESSION_SESSION_H_
