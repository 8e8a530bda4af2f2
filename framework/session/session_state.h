// SPDX-License-Identifier: Apache-2.0
//
// SessionState is the implementation of Session: the replicas and their threads, their connection,
// the layout of the variables, and the steps with their compiled plans. Tools and tests access it
// through Session::state().
#ifndef MIRRORFLOW_FRAMEWORK_SESSION_SESSION_STATE_H_
#define MIRRORFLOW_FRAMEWORK_SESSION_SESSION_STATE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/compiler/compilation.h"
#include "framework/compiler/pass.h"
#include "framework/core/monotonic_time.h"
#include "framework/runtime/link_costs.h"
#include "framework/runtime/replica.h"
#include "framework/runtime/replica_team.h"
#include "framework/runtime/tuning_table.h"
#include "framework/runtime/variable_layout.h"
#include "framework/session/clock_offset.h"
#include "framework/session/connection.h"
#include "framework/session/session.h"
#include "framework/session/step_tracer.h"
#include "framework/session/worker_group.h"

namespace mirrorflow {

struct StepVariant;

// Dependencies that the layers above the session inject: devices, kernels, the compiler's pipeline,
// and a function that connects the replicas.
struct SessionBackend {
  using CompileFn = absl::StatusOr<std::shared_ptr<const Program>> (*)(
      const Graph& graph, const GlobalSignature& signature, const VariableLayout& layout,
      const SessionBackend& backend, const CompileOptions& options);
  // Compiles the plan of a replica that has `rows[axis]` rows of each axis of the program and a
  // device with `traits`. `tuning` is null without autotune.
  using CompilePlanFn = absl::StatusOr<std::shared_ptr<const Plan>> (*)(
      const Program& program, const std::vector<int64_t>& rows, const DeviceTraits& traits,
      TuningTable* tuning);

  std::vector<std::unique_ptr<Device>> devices;  // of the local replicas
  const OpRegistry* ops = nullptr;
  const KernelRegistry* kernels = nullptr;  // of the devices and of the host
  std::vector<PassMaker> passes = {};       // the user's, for the first half
  CompileFn compile = nullptr;
  CompilePlanFn compile_plan = nullptr;
  Topology topology;  // its ranks of this worker are the local replicas
  // The ranks of a memory domain form a local team (Communicator::team) and can share updates.
  bool has_teams = false;
  LinkCosts link = {};  // between memory domains
  CoreSharers core_sharers;
  WorkerGroup* workers = nullptr;                        // null if this is the only worker
  std::shared_ptr<WorkerGroup> workers_owner = nullptr;  // null if they are borrowed
  ConnectFn connect;
  HangPolicy hang_policy = {};
  // Returns the same zeroed memory to all workers of this worker's memory domain, which they find
  // under `name`. Null if workers share no memory.
  using ShareMemoryFn = std::function<absl::StatusOr<std::shared_ptr<std::byte>>(
      size_t bytes, absl::string_view name, WorkerGroup& workers, MonotonicTime deadline)>;
  ShareMemoryFn share_memory;
};

// A compiled step, for `inspect` and `bench`.
struct StepPlans {
  std::shared_ptr<const Program> program;
  std::vector<std::shared_ptr<const Plan>> plans;  // by local replica; equal shares share one
};

// The number from which random ops draw in a run: `count` runs of its kind were before it. Runs
// that write nothing draw from numbers of their own, so they never change what training draws.
inline uint64_t StreamOfRun(uint64_t count, bool writes) {
  return writes ? count : count | uint64_t{1} << 63;
}

// Compiles the step for feeds of these shapes, or returns the plans of an earlier compilation.
absl::StatusOr<StepPlans> CompileStep(const Step& step, absl::Span<const Shape> feed_shapes,
                                      const RunOptions& options = {});

// The plan of rank 0 for another topology, of replicas like those of the step's session.
struct PlanElsewhere {
  std::unique_ptr<const VariableLayout> layout;
  std::shared_ptr<const Program> program;
  std::shared_ptr<const Plan> plan;
};
absl::StatusOr<PlanElsewhere> CompileStepFor(const Step& step, std::vector<Shape> feed_shapes,
                                             const Topology& topology, const LinkCosts& link);

// Session documents the methods that the two classes have in common.
class SessionState {
 public:
  static absl::StatusOr<std::unique_ptr<SessionState>> Create(const Graph& graph,
                                                              SessionBackend backend,
                                                              SessionOptions options);
  ~SessionState();

  absl::StatusOr<Step> Prepare(absl::Span<const Output> feeds, absl::Span<const Output> fetches,
                               absl::Span<const Operation> targets, const PrepareOptions& options);
  absl::StatusOr<std::vector<Tensor>> Run(absl::Span<const std::pair<Output, Tensor>> feeds,
                                          absl::Span<const Output> fetches,
                                          absl::Span<const Operation> targets);

  const VariableLayout& layout() const { return layout_; }
  const Connection& connection() const { return connection_; }
  int num_local_replicas() const { return static_cast<int>(replicas_.size()); }
  int world_size() const { return backend_.topology.world_size(); }
  absl::Status Reconnect();

  uint64_t step() const { return next_step_; }
  void SetStep(uint64_t step) { next_step_ = step; }
  uint64_t reading_step() const { return next_reading_step_; }
  void SetReadingStep(uint64_t step) { next_reading_step_ = step; }

  absl::Status ReadVariable(absl::string_view name, Tensor* value);
  absl::Status ReadVariable(absl::string_view name, int replica, Tensor* value);
  absl::Status AssignVariable(absl::string_view name, const Tensor& value);
  absl::Status AssignFromWorker0(absl::Span<const std::string> names,
                                 const std::map<std::string, Tensor>& values);
  absl::StatusOr<std::vector<VariablePart>> ReadParts(absl::string_view name);
  absl::Status AssignPartsFromWorker0(absl::string_view name, absl::Span<const VariablePart> parts);
  bool IsInitialized(absl::string_view name) const;
  absl::Status CheckReplicas();
  uint64_t seed() const { return options_.seed; }
  // The deadline for a wait, from now on, for workers that may be late.
  MonotonicTime PrepareDeadline() const { return MonotonicTime::Now() + options_.prepare_timeout; }

  void TraceTo(TraceWriter* trace);
  absl::Status GatherTrace();
  // The times of this worker at several barriers, which all workers must pass.
  absl::StatusOr<std::vector<Passage>> PassBarriers();

 private:
  friend class Step;
  friend absl::StatusOr<StepPlans> CompileStep(const Step& step,
                                               absl::Span<const Shape> feed_shapes,
                                               const RunOptions& options);
  friend absl::StatusOr<PlanElsewhere> CompileStepFor(const Step& step,
                                                      std::vector<Shape> feed_shapes,
                                                      const Topology& topology,
                                                      const LinkCosts& link);
  static StepState* StateOf(const Step& step) { return step.state_.get(); }
  enum class VariableState : char { kUnset, kSet, kIndeterminate };

  SessionState(SessionBackend backend, SessionOptions options);
  absl::Status Initialize(const Graph& graph);
  // Chooses the size of buckets, unless the options do.
  absl::StatusOr<VariableLayout> LayOutVariables(const Topology& topology,
                                                 const LinkCosts& link) const;
  // Whether the replicas can share one copy of a variable.
  bool SharesVariables() const;
  using SharedRegions = std::vector<std::shared_ptr<std::byte>>;  // by region; null: not shared
  absl::StatusOr<SharedRegions> AllocateSharedRegions();
  // Whether `replica` is the one that writes the copy of a variable which several share.
  bool Writes(const Replica& replica, const VariableInfo& variable) const;
  static absl::Status CheckValue(const VariableInfo& variable, const Tensor& value);
  absl::Status SetVariable(int variable, const Tensor& value);
  absl::Status InitializeVariables();
  absl::Status RunInitializers(absl::Span<const int> variables, absl::Span<const Output> values);
  // Translates the arguments of Prepare to the session's own graph.
  absl::StatusOr<StepSignature> Resolve(absl::Span<const Output> feeds,
                                        absl::Span<const Output> fetches,
                                        absl::Span<const Operation> targets) const;
  absl::StatusOr<int> FindVariable(absl::string_view name) const;
  absl::Status CheckDeterminate(int variable) const;
  absl::StatusOr<Output> FindOutput(absl::string_view name) const;
  // Whether the variables are in the states for which the variant was compiled.
  bool HasStates(const StepVariant& variant) const;
  absl::StatusOr<StepVariant*> FindVariant(StepState& step, absl::Span<const Shape> shapes,
                                           absl::Span<const int64_t> rows);
  absl::StatusOr<std::unique_ptr<StepVariant>> CompileVariant(StepState& step,
                                                              std::vector<Shape> shapes,
                                                              std::vector<int64_t> rows);
  // Makes the plans of the local replicas, and reuses those of other variants where possible.
  absl::Status MakePlans(const StepState& step, StepVariant& variant);
  absl::Status RunVariant(StepVariant& variant, absl::Span<const Tensor> feeds);
  // Returns the error of a run that ended with `status` on some replicas, as all workers see it.
  absl::Status FailRun(StepVariant& variant, uint64_t step, const absl::Status& status,
                       bool lost_updates);
  // The updates of a run were not completed: what the variables hold is unknown.
  void LoseUpdates(const StepVariant& variant, const absl::Status& cause);
  void DropRecordings();
  // Finishes updates in flight. Called before variables are used otherwise than by the same step.
  absl::Status FinishUpdates();
  void SetNextFeeds(StepVariant& variant, absl::Span<const Tensor> feeds);
  // Whether a local replica provides output `i`, or a part of it.
  static bool Provides(const StepVariant& variant, int replica, size_t i);
  void CopyFetches(StepVariant& variant, int replica);
  int64_t FirstLocalRow(const StepVariant& variant, const PlannedFetch& fetch,
                        const BoundPlan& bound) const;
  const std::byte* ShareOf(const StepVariant& variant, const Tensor& feed, int replica,
                           size_t index) const;
  absl::Status MakeOutputs(StepVariant& variant);
  absl::StatusOr<StepOutputs> RunStep(StepState& step, absl::Span<const Tensor> feeds,
                                      const RunOptions& options);
  // Called only if there are several workers.
  absl::Status AgreeOnVariables();
  absl::Status TakeSeedOfWorker0();
  // Copies rank 0's values of the variables, but for those that are synchronised on read.
  absl::Status TakeVariablesOfRank0(absl::Span<const int> variables);
  absl::Status AgreeOn(const StepState& step, StepVariant& variant);
  absl::Status TakeTuningOfWorker0(absl::string_view agreement);
  absl::StatusOr<Tensor> SumOverRanks(int variable);
  // `own` has as many numbers for each local replica. Returns those of all ranks, by rank.
  absl::StatusOr<std::vector<uint32_t>> GatherNumbers(const std::vector<std::vector<uint32_t>>& own,
                                                      absl::string_view name);
  // The index of a variable that is synchronised on read.
  absl::StatusOr<int> FindOnRead(absl::string_view name) const;
  // Returns the value that the worker of rank `root` passes, a part of the variable.
  absl::StatusOr<Tensor> BroadcastPart(const VariableInfo& variable, int root, const Tensor& value);
  // Waits for the other workers, if this one shares variables with some of them.
  absl::Status WaitForSharers();
  // Calls work(replica, lane) for each local replica, on its thread and its communication lane.
  absl::Status OnEachReplica(absl::FunctionRef<absl::Status(Replica&, Lane&)> work);
  MonotonicTime ConnectDeadline() const { return MonotonicTime::Now() + options_.connect_timeout; }
  void AddTrace(const StepVariant& variant, uint64_t step);

  SessionBackend backend_;
  SessionOptions options_;
  Graph graph_;
  VariableLayout layout_;
  std::unique_ptr<TuningTable> tuning_;  // with autotune
  std::vector<std::unique_ptr<Replica>> replicas_;
  bool writes_shared_ = true;  // the shared variables; false if another worker of the domain does
  Connection connection_;      // destroyed before the replicas, to which it points
  std::unique_ptr<ReplicaTeam> team_;
  std::vector<std::shared_ptr<StepState>> steps_;
  std::vector<VariableState> variable_states_;
  std::string indeterminate_cause_;        // the last error that left variables indeterminate
  StepVariant* unfinished_ = nullptr;      // its last run has left updates in flight; may be null
  const StepVariant* last_run_ = nullptr;  // the replicas hold its values; may be null
  uint64_t next_step_ = 0;                 // counts steps that write variables
  uint64_t next_reading_step_ = 0;         // counts all other steps
  uint64_t arena_moves_ = 0;               // how often a replica's arena has moved
  int num_agreements_ = 0;                 // in this incarnation
  int num_gathered_traces_ = 0;            // in this incarnation
  std::unique_ptr<StepTracer> tracer_;     // null unless the session is traced
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_SESSION_SESSION_STATE_H_
