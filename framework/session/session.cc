// SPDX-License-Identifier: Apache-2.0
#include "framework/session/session.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/compiler/row_shards.h"
#include "framework/core/status.h"
#include "framework/runtime/usable_cpus.h"
#include "framework/session/agree_on_steps.h"
#include "framework/session/check_replicas.h"
#include "framework/session/initialize_variables.h"
#include "framework/session/prepared_step.h"
#include "framework/session/runner_pool.h"
#include "framework/session/session_backend.h"
#include "framework/session/session_memory.h"
#include "framework/session/step_cache.h"
#include "framework/session/step_compiler.h"
#include "framework/session/step_plans.h"
#include "framework/session/step_runner.h"
#include "framework/session/variable_memory.h"
#include "framework/session/variable_store.h"
#include "framework/workers/connection.h"
#include "framework/workers/gather_trace.h"
#include "framework/workers/local_replicas.h"
#include "framework/workers/rank_exchange.h"

namespace mirrorflow {
namespace {

World WorldOf(const Topology& topology, bool has_teams, const LinkCosts& link) {
  return {.size = topology.world_size(),
          .num_domains = topology.num_domains(),
          .has_teams = has_teams,
          .link = link};
}

std::unique_ptr<TuningTable> MakeTuningTable(const SessionBackend& backend,
                                             const SessionOptions& options) {
  if (!options.compile.kernels.autotune) return nullptr;
  const bool is_chief = backend.workers == nullptr || backend.workers->worker() == 0;
  return std::make_unique<TuningTable>(/*measures=*/is_chief);
}

}  // namespace

Session::Session(const Graph& graph, SessionBackend& backend, const SessionOptions& options)
    : options_(options),
      graph_(graph.Clone()),
      can_share_variables_(CanShareVariables(backend, options.compile)),
      log_(std::make_unique<RunLog>()),
      compiler_(std::make_unique<StepCompiler>(
          graph_,
          CompileTarget{.ops = backend.ops,
                        .kernels = backend.kernels,
                        .passes = backend.passes,
                        .world = WorldOf(backend.topology, backend.has_teams, backend.link)},
          backend.compile, backend.compile_plan, options.compile,
          MakeTuningTable(backend, options))),
      connection_(std::make_unique<Connection>(backend.topology, backend.workers, backend.connect,
                                               backend.hang_policy)) {}

Session::~Session() {
  if (runners_ != nullptr) {
    log_->tracer = nullptr;  // the user may have destroyed the trace
    // Other workers may be waiting for updates that this worker has in flight.
    runners_->first().FinishUpdates().IgnoreError();
    // After a failure, transfers in flight still use the steps, and the steps' recordings use the
    // communicators.
    runners_->first().Disconnect();
  }
  connection_->Disconnect();
  for (const auto& step : steps_) step->session = nullptr;
}

absl::StatusOr<std::unique_ptr<Session>> Session::Create(const Graph& graph, SessionBackend backend,
                                                         SessionOptions options) {
  MF_RETURN_IF_ERROR(graph.status());
  MF_RETURN_IF_ERROR(backend.topology.Check());
  std::unique_ptr<Session> session(new Session(graph, backend, options));
  const absl::Status made = session->Initialize(backend);
  if (made.ok()) return session;
  // Once this worker has joined, the other workers wait for it to initialise.
  Connection& connection = *session->connection_;
  const bool is_awaited =
      connection.has_other_workers() && connection.state() != Connection::State::kBroken;
  return is_awaited ? connection.Break(made, session->step(), session->ConnectDeadline()) : made;
}

absl::Status Session::Initialize(SessionBackend& backend) {
  const std::vector<int> ranks = connection_->local_ranks();
  if (ranks.empty() || ranks.size() != backend.devices.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "session: wrong number of devices; expected one for each local replica (", ranks.size(),
        " in ", backend.topology.ToString(), "), got ", backend.devices.size()));
  }
  const World& world = compiler_->target().world;
  MF_ASSIGN_OR_RETURN(VariableLayout layout,
                      LayOutVariables(graph_, world, backend.devices[0]->traits(),
                                      options_.bucket_bytes, can_share_variables_));
  MF_RETURN_IF_ERROR(CheckVariableMemory(layout, ranks.size(), options_.max_bytes));
  MF_RETURN_IF_ERROR(connection_->Join(PrepareDeadline()));
  if (connection_->has_other_workers()) {
    MF_RETURN_IF_ERROR(AgreeOnVariables(layout, backend.link, *connection_, PrepareDeadline()));
    MF_ASSIGN_OR_RETURN(options_.seed, TakeSeedOfWorker0(options_.seed, *connection_->workers(),
                                                         PrepareDeadline()));
  }
  MF_ASSIGN_OR_RETURN(const SharedRegions shared,
                      AllocateSharedRegions(layout, backend, ranks[0], PrepareDeadline()));
  MF_ASSIGN_OR_RETURN(
      replicas_, LocalReplicas::Create(
                     std::move(backend.devices), ranks, layout, shared.memory,
                     {.pin_threads = options_.pin_threads, .core_sharers = backend.core_sharers}));
  if (connection_->has_other_workers()) {
    // Connect() expects all workers to be ready, but some may still be allocating memory.
    MF_RETURN_IF_ERROR(connection_->workers()->Barrier("created replicas", PrepareDeadline()));
  }
  MF_RETURN_IF_ERROR(connection_->Connect(replicas_->all(), ConnectDeadline()));
  exchange_ = std::make_unique<RankExchange>(
      *replicas_, *connection_, log_->counters,
      RankExchange::Options{.timeout = options_.step_timeout,
                            .report_timeout = options_.connect_timeout});
  variables_ = std::make_unique<VariableStore>(std::move(layout), *exchange_, shared.sharing);
  cache_ = std::make_unique<StepCache>(*compiler_, variables_->layout(), *replicas_,
                                       StepCache::Options{.max_steps = options_.max_cached_steps,
                                                          .max_bytes = options_.max_bytes,
                                                          .world_size = world.size});
  const bool can_share_session = world.size == 1 && replicas_->first().device().Clone() != nullptr;
  const int threads = replicas_->first().device().traits().num_threads;
  const int max_runs = options_.max_concurrent_runs > 0 ? options_.max_concurrent_runs
                                                        : std::max(NumUsableCpus() / threads, 1);
  runners_ = std::make_unique<RunnerPool>(
      NewRunner(replicas_), [this] { return CloneRunner(); },
      RunnerPool::Options{
          .max_runners = can_share_session ? max_runs : 1,
          .refuse_others = connection_->has_other_workers(),
          .timeout = options_.step_timeout,
          .max_bytes = options_.max_bytes - VariableBytes(variables_->layout(), ranks.size()),
          .shared_bytes = [forms = variables_->forms()] { return forms->bytes(); }});
  return InitializeVariables();
}

absl::Status Session::InitializeVariables() {
  MF_RETURN_IF_ERROR(mirrorflow::InitializeVariables(
      graph_, *compiler_, replicas_->first(), options_.seed, options_.step_timeout, *variables_));
  if (connection_->has_other_workers()) variables_->MarkInitial();
  return absl::OkStatus();
}

std::unique_ptr<StepRunner> Session::NewRunner(std::shared_ptr<LocalReplicas> replicas) {
  return std::make_unique<StepRunner>(
      std::move(replicas), *connection_, *variables_, *cache_, *log_,
      StepRunner::Options{.seed = options_.seed,
                          .step_timeout = options_.step_timeout,
                          .report_timeout = options_.connect_timeout});
}

absl::StatusOr<std::unique_ptr<StepRunner>> Session::CloneRunner() {
  const Replica& first = replicas_->first();
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(first.device().Clone());
  const int ranks[] = {first.rank()};
  MF_ASSIGN_OR_RETURN(std::shared_ptr<LocalReplicas> replicas,
                      LocalReplicas::Create(std::move(devices), ranks, layout(),
                                            first.layout_memory(), {.pin_threads = false}));
  replicas->first().set_forms(variables_->forms());
  return NewRunner(std::move(replicas));
}

int Session::num_local_replicas() const { return replicas_->size(); }
int Session::world_size() const { return connection_->topology().world_size(); }
const Forms& Session::forms() const { return *variables_->forms(); }
const VariableLayout& Session::layout() const { return variables_->layout(); }

int64_t Session::variable_bytes() const {
  return VariableBytes(layout(), static_cast<size_t>(num_local_replicas()));
}
int64_t Session::reserved_bytes() const { return runners_->first().reserved_bytes(); }

// Steps ------------------------------------------------------------------------------------------

absl::StatusOr<Step> Session::Prepare(absl::Span<const Output> feeds,
                                      absl::Span<const Output> fetches,
                                      absl::Span<const Operation> targets,
                                      const PrepareOptions& options) {
  auto step = std::make_shared<PreparedStep>();
  MF_ASSIGN_OR_RETURN(step->signature, ResolveSignature(graph_, feeds, fetches, targets));
  MF_ASSIGN_OR_RETURN(const StepSignature local,
                      ResolveSignature(graph_, {}, options.local_fetches, {}));
  for (const Output& fetch : local.fetches) {
    if (absl::c_linear_search(step->signature.fetches, fetch)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("local_fetches: expected a subset of the fetches, got ", fetch.ToString()));
  }
  step->signature.gathers_fetches = connection_->has_other_workers();
  step->signature.local_fetches = local.fetches;
  step->writes = ShowsWrites(step->signature);
  step->session = this;
  MutexLock lock(&steps_mutex_);
  step->index = steps_.size();
  return Step(steps_.emplace_back(std::move(step)));
}

absl::StatusOr<std::vector<Tensor>> Session::Run(absl::Span<const std::pair<Output, Tensor>> feeds,
                                                 absl::Span<const Output> fetches,
                                                 absl::Span<const Operation> targets) {
  std::vector<Output> feed_outputs;
  std::vector<Tensor> values;
  for (const auto& [output, value] : feeds) {
    feed_outputs.push_back(output);
    values.push_back(value);
  }
  MF_ASSIGN_OR_RETURN(const StepSignature wanted,
                      ResolveSignature(graph_, feed_outputs, fetches, targets));
  std::shared_ptr<PreparedStep> known;
  {
    MutexLock lock(&steps_mutex_);
    const auto found = absl::c_find_if(steps_, [&](const auto& step) {
      const StepSignature& s = step->signature;
      return s.feeds == wanted.feeds && s.fetches == wanted.fetches &&
             s.targets == wanted.targets && s.local_fetches.empty();
    });
    if (found != steps_.end()) known = *found;
  }
  Step step(std::move(known));
  if (step.prepared() == nullptr) {
    MF_ASSIGN_OR_RETURN(step, Prepare(feed_outputs, fetches, targets));
  }
  MF_ASSIGN_OR_RETURN(const StepOutputs outputs, step.Run(values));
  return std::vector<Tensor>(outputs.begin(), outputs.end());
}

absl::StatusOr<StepOutputs> Session::RunStep(PreparedStep& step, absl::Span<const Tensor> feeds,
                                             const RunOptions& options) {
  absl::StatusOr<StepOutputs> outputs(absl::in_place);
  bool again = false;
  absl::Status status = TryStep(step, feeds, options, &*outputs, &again);
  if (again) [[unlikely]] {
    again = false;
    status = TryStep(step, feeds, options, &*outputs, &again);
  }
  if (!status.ok()) outputs = std::move(status);
  return outputs;
}

absl::Status Session::TryStep(PreparedStep& step, absl::Span<const Tensor> feeds,
                              const RunOptions& options, StepOutputs* outputs, bool* again) {
  MF_ASSIGN_OR_RETURN(const RunnerLease lease, step.writes.load(std::memory_order_relaxed)
                                                   ? runners_->Exclude()
                                                   : runners_->Share());
  MF_RETURN_IF_ERROR(EnsureConnected(lease.runner()));
  const absl::Status status =
      CatchOutOfMemory([&] { return RunOn(lease, step, feeds, options, outputs, again); });
  if (status.ok() || *again) [[likely]]
    return status;
  const bool broken = connection_->state() == Connection::State::kBroken;
  // Breaks the connection, so that other workers do not wait for this one in the step. After a
  // failure between steps, the next step reconnects.
  if (!broken && (connection_->has_other_workers() || !connection_->Check().ok())) {
    return connection_->Break(status, this->step(), ConnectDeadline());
  }
  return status;
}

absl::Status Session::RunOn(const RunnerLease& lease, PreparedStep& step,
                            absl::Span<const Tensor> feeds, const RunOptions& options,
                            StepOutputs* outputs, bool* again) {
  MF_RETURN_IF_ERROR(connection_->Check());
  StepRunner& runner = lease.runner();
  MF_ASSIGN_OR_RETURN(BoundStep * bound, runner.Bind(step, feeds, options));
  if (!bound->compiled->writes.empty() && !lease.is_exclusive()) [[unlikely]] {
    step.writes = *again = true;
    return absl::OkStatus();
  }
  if (connection_->has_other_workers()) MF_RETURN_IF_ERROR(AgreeOn(step, runner, *bound));
  if (!runner.ran_last(*bound)) {
    step.has_run.store(true, std::memory_order_relaxed);
    runners_->DropEvicted(*cache_);
    MF_RETURN_IF_ERROR(runners_->Reserve(lease, runner.BytesWith(*bound)));
  }
  MF_RETURN_IF_ERROR(runner.Run(*bound, feeds, options));
  outputs->assign(bound->outputs);
  if (const absl::Duration host_time = bound->plans[0]->host_time();
      host_time != absl::ZeroDuration()) {
    step.host_time_ns.store(absl::ToInt64Nanoseconds(host_time), std::memory_order_relaxed);
  }
  return absl::OkStatus();
}

absl::Status Session::AgreeOn(const PreparedStep& step, StepRunner& runner, BoundStep& bound) {
  CompiledStep& compiled = *bound.compiled;
  if (compiled.agreed == connection_->incarnation()) [[likely]]
    return absl::OkStatus();
  const std::string name = absl::StrCat("preparation ", num_agreements_++);
  MF_RETURN_IF_ERROR(AgreeOnStep(step, compiled, *variables_, log_->counters, options_,
                                 *connection_, name, PrepareDeadline()));
  if (TuningTable* const tuning = compiler_->tuning(); tuning != nullptr) {
    MF_RETURN_IF_ERROR(
        TakeTuningOfWorker0(name, *connection_->workers(), PrepareDeadline(), *tuning));
    MF_RETURN_IF_ERROR(cache_->Retune(compiled));
    MF_RETURN_IF_ERROR(runner.Rebind(bound));
  }
  MF_RETURN_IF_ERROR(variables_->TakeInitialValues());
  compiled.agreed = connection_->incarnation();
  runner.MoveArenas();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> Session::PerReplica(const PreparedStep& step, int fetch) const {
  if (!step.has_run) return absl::FailedPreconditionError("step: has not run; call Run first");
  const int fetches = static_cast<int>(step.signature.fetches.size());
  if (fetch < 0 || fetch >= fetches) {
    return absl::InvalidArgumentError(absl::StrCat(
        "step: no such fetch; expected an index from 0 to ", fetches - 1, ", got ", fetch));
  }
  MF_ASSIGN_OR_RETURN(const RunnerLease lease, runners_->Exclude());
  const BoundStep* const last_run = log_->last_run;
  if (last_run != nullptr && last_run->compiled->step == step.index) {
    return ValuesPerReplica(*last_run, fetch);
  }
  return absl::FailedPreconditionError(
      "step: the per-replica values are no longer available, because another step ran or a "
      "variable was assigned; call PerReplica right after Run");
}

absl::StatusOr<StepPlans> Session::Compile(const PreparedStep& step,
                                           absl::Span<const Shape> feed_shapes,
                                           const RunOptions& options) {
  MF_ASSIGN_OR_RETURN(const RunnerLease lease, runners_->Exclude());
  const StepKey key{step, feed_shapes, options.replica_rows, variables_->states()};
  std::shared_ptr<const CompiledStep> compiled;
  if (connection_->has_other_workers()) {
    // Other workers may not make this call, but all workers must evict the same steps.
    MF_ASSIGN_OR_RETURN(compiled, cache_->Peek(key));
  } else {
    MF_ASSIGN_OR_RETURN(compiled, cache_->Get(key));
  }
  return StepPlans{compiled->program, compiled->plans};
}

absl::StatusOr<PlanElsewhere> Session::CompileFor(const PreparedStep& step,
                                                  std::vector<Shape> feed_shapes,
                                                  const Elsewhere& elsewhere) const {
  const StepCompiler compiler = compiler_->For(
      WorldOf(elsewhere.topology, compiler_->target().world.has_teams, elsewhere.link));
  Device& device = replicas_->first().device();
  PlanElsewhere result;
  MF_ASSIGN_OR_RETURN(VariableLayout layout,
                      LayOutVariables(graph_, compiler.target().world, device.traits(),
                                      options_.bucket_bytes, can_share_variables_));
  result.layout = std::make_unique<const VariableLayout>(std::move(layout));
  GlobalSignature signature = {step.signature, std::move(feed_shapes)};
  signature.initialized.assign(result.layout->variables().size(), true);
  MF_ASSIGN_OR_RETURN(result.program, compiler.MakeProgram(signature, *result.layout));
  MF_ASSIGN_OR_RETURN(const RowShards shards,
                      ShardRows(result.program->state.axes, {}, elsewhere.topology.world_size()));
  std::vector<int64_t> rows;
  for (const std::vector<int64_t>& of_axis : shards) rows.push_back(of_axis[0]);
  MF_ASSIGN_OR_RETURN(
      result.plan, compiler.MakePlan(*result.program, rows, device, elsewhere.threads_per_replica));
  return result;
}

// The connection ---------------------------------------------------------------------------------

absl::StatusOr<RunnerLease> Session::Exclude() const {
  MF_ASSIGN_OR_RETURN(RunnerLease lease, runners_->Exclude());
  MF_RETURN_IF_ERROR(lease.runner().FinishUpdates());
  return lease;
}

absl::Status Session::EnsureConnected(StepRunner& runner) {
  return connection_->state() == Connection::State::kBroken ? Reconnect(runner) : absl::OkStatus();
}

absl::Status Session::Reconnect(StepRunner& runner) {
  runner.Disconnect();
  // Some workers may have compiled a step that others have not. Clear the cache, so that all
  // workers continue to evict the same steps.
  if (connection_->has_other_workers()) cache_->Clear();
  num_agreements_ = num_gathered_traces_ = 0;
  MF_RETURN_IF_ERROR(connection_->Join(PrepareDeadline()));
  if (connection_->has_other_workers()) {
    const absl::Status agreed = variables_->AgreeOnInitial(PrepareDeadline());
    if (!agreed.ok()) connection_->Disconnect();
    MF_RETURN_IF_ERROR(agreed);
  }
  return connection_->Connect(replicas_->all(), ConnectDeadline());
}

absl::Status Session::Reconnect() {
  MF_ASSIGN_OR_RETURN(const RunnerLease lease, runners_->Exclude());
  return Reconnect(lease.runner());
}

uint64_t Session::step() const { return log_->counters.writing; }
void Session::SetStep(uint64_t step) { log_->counters.writing = step; }
uint64_t Session::reading_step() const { return log_->counters.reading; }
void Session::SetReadingStep(uint64_t step) { log_->counters.reading = step; }

// Variables --------------------------------------------------------------------------------------

std::vector<std::string> Session::VariableNames() const {
  std::vector<std::string> names;
  for (const VariableInfo& variable : layout().variables()) names.push_back(variable.name);
  absl::c_sort(names);
  return names;
}

absl::StatusOr<Tensor> Session::ReadVariable(absl::string_view name) {
  Tensor value;
  MF_RETURN_IF_ERROR(CopyVariable(name, &value));
  return value;
}

absl::Status Session::CopyVariable(absl::string_view name, Tensor* copy) {
  MF_ASSIGN_OR_RETURN(const int variable, variables_->Find(name));
  MF_ASSIGN_OR_RETURN(const RunnerLease lease, Exclude());
  if (variables_->ReadsOtherWorkers(variable)) MF_RETURN_IF_ERROR(EnsureConnected(lease.runner()));
  return variables_->Read(variable, copy);
}

absl::StatusOr<uint64_t> Session::CopyVariables(std::map<std::string, Tensor>* copies) {
  MF_ASSIGN_OR_RETURN(const RunnerLease lease, Exclude());
  const bool is_chief = connection_->worker() == 0;
  std::map<std::string, Tensor> copied;
  for (int v = 0; v < static_cast<int>(layout().variables().size()); ++v) {
    const VariableInfo& variable = variables_->info(v);
    if (variables_->states()[v] != VariableStore::State::kSet) continue;
    if (variables_->ReadsOtherWorkers(v)) {
      MF_RETURN_IF_ERROR(EnsureConnected(lease.runner()));
    } else if (!is_chief) {
      continue;
    }
    Tensor copy = std::move((*copies)[variable.name]);
    MF_RETURN_IF_ERROR(variables_->Read(v, &copy));
    if (is_chief) copied[variable.name] = std::move(copy);
  }
  *copies = std::move(copied);
  return step();
}

absl::StatusOr<Tensor> Session::ReadVariable(absl::string_view name, int replica) const {
  MF_ASSIGN_OR_RETURN(const int variable, variables_->Find(name));
  MF_ASSIGN_OR_RETURN(const RunnerLease lease, Exclude());
  Tensor value;
  MF_RETURN_IF_ERROR(variables_->Read(variable, replica, &value));
  return value;
}

absl::Status Session::AssignVariable(absl::string_view name, const Tensor& value) {
  return AssignVariables({{std::string(name), value}});
}

absl::Status Session::AssignVariables(const std::map<std::string, Tensor>& values) {
  std::vector<VariableStore::Assignment> assignments;
  for (const auto& [name, value] : values) {
    MF_ASSIGN_OR_RETURN(const int variable, variables_->Find(name));
    MF_RETURN_IF_ERROR(variables_->CheckValue(variable, value));
    assignments.push_back({variable, value});
  }
  MF_ASSIGN_OR_RETURN(const RunnerLease lease, Exclude());
  if (variables_->shares_with_workers()) MF_RETURN_IF_ERROR(EnsureConnected(lease.runner()));
  log_->last_run = nullptr;
  return variables_->Assign(assignments);
}

absl::Status Session::AssignFromWorker0(absl::Span<const std::string> names,
                                        const std::map<std::string, Tensor>& values) {
  std::vector<int> variables;
  for (const std::string& name : names) {
    MF_ASSIGN_OR_RETURN(variables.emplace_back(), variables_->Find(name));
  }
  MF_ASSIGN_OR_RETURN(const RunnerLease lease, Exclude());
  if (connection_->has_other_workers()) MF_RETURN_IF_ERROR(EnsureConnected(lease.runner()));
  log_->last_run = nullptr;
  return variables_->AssignFromWorker0(variables, values);
}

absl::StatusOr<std::vector<VariablePart>> Session::ReadParts(absl::string_view name) {
  MF_ASSIGN_OR_RETURN(const int variable, variables_->Find(name));
  MF_RETURN_IF_ERROR(variables_->CheckOnRead(variable));
  MF_ASSIGN_OR_RETURN(const RunnerLease lease, Exclude());
  if (connection_->has_other_workers()) MF_RETURN_IF_ERROR(EnsureConnected(lease.runner()));
  return variables_->ReadParts(variable);
}

absl::Status Session::AssignPartsFromWorker0(absl::string_view name,
                                             absl::Span<const VariablePart> parts) {
  MF_ASSIGN_OR_RETURN(const int variable, variables_->Find(name));
  MF_RETURN_IF_ERROR(variables_->CheckOnRead(variable));
  MF_ASSIGN_OR_RETURN(const RunnerLease lease, Exclude());
  if (connection_->has_other_workers()) MF_RETURN_IF_ERROR(EnsureConnected(lease.runner()));
  log_->last_run = nullptr;
  return variables_->AssignPartsFromWorker0(variable, parts);
}

bool Session::IsInitialized(absl::string_view name) const {
  const int variable = layout().Find(name);
  return variable >= 0 && variables_->states()[variable] == VariableStore::State::kSet;
}

absl::Status Session::CheckReplicas() {
  if (world_size() == 1) return absl::OkStatus();
  MF_ASSIGN_OR_RETURN(const RunnerLease lease, Exclude());
  MF_RETURN_IF_ERROR(EnsureConnected(lease.runner()));
  MF_RETURN_IF_ERROR(variables_->TakeInitialValues());
  return mirrorflow::CheckReplicas(layout(), *exchange_);
}

// Traces -----------------------------------------------------------------------------------------

absl::Status Session::TraceTo(TraceWriter* trace) {
  MF_ASSIGN_OR_RETURN(const RunnerLease lease, runners_->Exclude());
  log_->tracer = trace == nullptr ? nullptr : std::make_unique<StepTracer>(trace);
  runners_->SetTraced(trace != nullptr);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Passage>> Session::PassBarriers() {
  MF_ASSIGN_OR_RETURN(const RunnerLease lease, Exclude());
  return exchange_->PassBarriers();
}

absl::Status Session::GatherTrace() {
  MF_ASSIGN_OR_RETURN(const RunnerLease lease, runners_->Exclude());
  if (log_->tracer == nullptr) {
    return absl::FailedPreconditionError(
        "GatherTrace: the session is not traced; call TraceTo first");
  }
  const absl::Status finished = lease.runner().FinishUpdates();  // this also ends their spans
  TraceWriter& trace = std::exchange(log_->tracer, nullptr)->trace();
  runners_->SetTraced(false);
  MF_RETURN_IF_ERROR(finished);
  if (!connection_->has_other_workers()) return absl::OkStatus();
  MF_ASSIGN_OR_RETURN(const std::vector<Passage> passages, exchange_->PassBarriers());
  return mirrorflow::GatherTrace(absl::StrCat("trace ", num_gathered_traces_++), passages,
                                 *connection_->workers(), PrepareDeadline(), &trace);
}

}  // namespace mirrorflow
