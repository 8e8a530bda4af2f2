// SPDX-License-Identifier: Apache-2.0
//
// Runs the compiled steps of a session, and handles their outputs and failures.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/compiler/row_shares.h"
#include "framework/core/failpoint.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/out_of_memory.h"
#include "framework/core/status.h"
#include "framework/session/step_state.h"

namespace mirrorflow {
namespace {

absl::Status CheckUsable(const StepState* step) {
  if (step == nullptr) {
    return absl::FailedPreconditionError("step: not prepared; expected one from Session::Prepare");
  }
  if (step->session == nullptr) {
    return absl::FailedPreconditionError(
        "step: its session was destroyed; expected one that outlives the step's last use");
  }
  return absl::OkStatus();
}

Failpoint run_failpoint("session/run");

std::string FeedNames(absl::Span<const Output> feeds) {
  return absl::StrJoin(feeds, ", ", [](std::string* out, const Output& feed) {
    absl::StrAppend(out, feed.ToString());
  });
}

bool IsFed(const Plan& plan, const Operand& operand) {
  return operand.region >= Plan::kFirstFeedRegion && operand.region < plan.layout_region(0);
}

// Calls copy(offset in the share, offset in the output, bytes) for each contiguous piece of one
// replica's share of a fetch. `first_row` is the share's first row in the output, in rows of its
// axis.
template <typename Copy>
void ForEachPiece(const PlannedFetch& fetch, const Shape& output, int64_t first_row,
                  const Copy& copy) {
  const auto size = static_cast<int64_t>(DataTypeSize(fetch.dtype));
  const Sharded* s = AsSharded(fetch.sharding);
  if (s == nullptr) return copy(0, 0, fetch.local_shape.num_elements() * size);
  int64_t outer = 1, inner = size;
  for (int d = 0; d < s->dim; ++d) outer *= output.dim(d);
  for (int d = s->dim + 1; d < output.rank(); ++d) inner *= output.dim(d);
  const int64_t first = first_row * s->factor * inner;
  const int64_t local = fetch.local_shape.dim(s->dim) * inner;
  const int64_t whole = output.dim(s->dim) * inner;
  for (int64_t o = 0; o < outer; ++o) copy(o * local, o * whole + first, local);
}

// Returns the global shapes of `feeds`, in which split feeds have only this worker's rows.
absl::StatusOr<std::vector<Shape>> GlobalShapes(absl::Span<const Output> outputs,
                                                absl::Span<const Tensor> feeds,
                                                absl::Span<const int64_t> replica_rows,
                                                absl::Span<const int> local_ranks, int world_size) {
  std::vector<Shape> shapes;
  for (size_t f = 0; f < feeds.size(); ++f) {
    Shape shape = feeds[f].shape();
    if (IsSplit(outputs[f], shape)) {
      const int64_t own = shape.dim(0);
      const auto ranks = static_cast<int64_t>(local_ranks.size());
      int64_t expected = own, all = own / ranks * world_size;
      if (!replica_rows.empty()) {
        expected = all = 0;
        for (const int64_t rows : replica_rows) all += rows;
        for (const int rank : local_ranks) expected += replica_rows[rank];
      } else if (own % ranks != 0) {
        expected = own / ranks * ranks;
      }
      if (own != expected) {
        return absl::InvalidArgumentError(
            absl::StrCat("feed ", outputs[f].ToString(), ": expected ", expected, " rows for the ",
                         ranks, " replicas of this worker, got ", own));
      }
      shape.set_dim(0, all);
    }
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

}  // namespace

// Returns the row at which a replica's share of a split fetch begins in the output. The output has
// all rows or, if the fetch is local, those of this worker.
int64_t SessionState::FirstLocalRow(const StepVariant& variant, const PlannedFetch& fetch,
                                    const BoundPlan& bound) const {
  const Sharded* s = AsSharded(fetch.sharding);
  if (s == nullptr) return 0;
  return bound.first_rows()[s->axis] - variant.bound[0]->first_rows()[s->axis];
}

// Returns the address of a replica's share of a feed.
const std::byte* SessionState::ShareOf(const StepVariant& variant, const Tensor& feed, int replica,
                                       size_t index) const {
  const BoundPlan& bound = *variant.bound[replica];
  const Sharded* s = AsSharded(bound.plan().feeds[index].sharding);
  if (s == nullptr) return feed.raw();
  // The first row in the feed's memory.
  const int64_t first = variant.local_feeds ? variant.bound[0]->first_rows()[s->axis] : 0;
  return feed.raw() + (bound.first_rows()[s->axis] - first) * variant.feed_row_bytes[index];
}

// Provides each output with memory to which no caller holds a reference.
absl::Status SessionState::MakeOutputs(StepVariant& variant) {
  for (size_t i = 0; i < variant.outputs.size(); ++i) {
    Tensor& output = variant.outputs[i];
    if (!output.has_value() || output.is_inline()) continue;
    const DataType dtype = output.dtype();
    const Shape shape = output.shape();
    const size_t bytes = output.bytes();
    // Frees its buffer unless the caller has kept a reference. The type stays for the next run,
    // should there be no memory for this one.
    output = Tensor::View(dtype, shape, nullptr, nullptr);
    MF_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> buffer, variant.output_pools[i].Take(bytes));
    std::byte* const data = buffer->data();
    output = Tensor::View(dtype, shape, data, std::move(buffer));
  }
  return absl::OkStatus();
}

bool SessionState::Provides(const StepVariant& variant, int replica, size_t i) {
  const PlannedFetch& fetch = variant.bound[replica]->plan().fetches[i];
  if (IsPerReplica(fetch.sharding)) return false;
  // A replicated value is taken from the first replica.
  return AsSharded(fetch.sharding) != nullptr || replica == 0;
}

void SessionState::CopyFetches(StepVariant& variant, int replica) {
  BoundPlan& bound = *variant.bound[replica];
  for (size_t i = 0; i < variant.outputs.size(); ++i) {
    if (!Provides(variant, replica, i)) continue;
    const PlannedFetch& fetch = bound.plan().fetches[i];
    const std::byte* from = bound.fetched(static_cast<int>(i));
    std::byte* to = variant.outputs[i].raw();
    ForEachPiece(fetch, variant.outputs[i].shape(), FirstLocalRow(variant, fetch, bound),
                 [&](int64_t local, int64_t global, int64_t bytes) {
                   std::memcpy(to + global, from + local, bytes);
                 });
  }
}

// Feeds of other shapes are copied in their own Run. Devices that read host memory need no copy.
void SessionState::SetNextFeeds(StepVariant& variant, absl::Span<const Tensor> feeds) {
  if (replicas_[0]->device().traits().host_memory) return;
  variant.next_feeds.clear();
  variant.announces_next = false;
  if (feeds.size() != variant.fed_shapes.size()) return;
  for (size_t f = 0; f < feeds.size(); ++f) {
    if (feeds[f].dtype() != variant.bound[0]->plan().feeds[f].dtype ||
        feeds[f].shape() != variant.fed_shapes[f]) {
      return;
    }
  }
  variant.next_feeds.assign(feeds.begin(), feeds.end());
  variant.announces_next = true;
}

absl::Status SessionState::RunVariant(StepVariant& variant, absl::Span<const Tensor> feeds) {
  if (unfinished_ != &variant) MF_RETURN_IF_ERROR(FinishUpdates());
  unfinished_ = nullptr;  // this run finishes them
  const MonotonicTime deadline = MonotonicTime::Now() + options_.step_timeout;
  const bool writes = !variant.writes.empty();
  const uint64_t step = writes ? next_step_++ : next_reading_step_++;
  const RunProgress::Run run(connection_.progress(), next_step_);
  if (connection_.has_other_workers()) MF_RETURN_IF_ERROR(run_failpoint.Pass());
  const uint64_t drawn_from = StreamOfRun(step, writes);
  MF_RETURN_IF_ERROR(MakeOutputs(variant));
  // If one arena moves, all replicas record their steps again: the collectives of a recording do
  // not meet those of a step that is not replayed.
  if (std::any_of(variant.bound.begin(), variant.bound.end(),
                  [](const auto& bound) { return bound->moves_arena(); })) {
    ++arena_moves_;
  }
  if (std::exchange(variant.arena_moves, arena_moves_) != arena_moves_) {
    for (const auto& bound : variant.bound) bound->DropRecording();
  }
  if (tracer_ != nullptr) variant.spans.resize(replicas_.size());
  auto work = [&](int r) -> absl::Status {
    BoundPlan& bound = *variant.bound[r];
    for (size_t f = 0; f < feeds.size(); ++f) {
      bound.SetFeed(static_cast<int>(f), ShareOf(variant, feeds[f], r, f));
    }
    if (variant.announces_next) {
      absl::InlinedVector<const std::byte*, 8> shares;
      for (size_t f = 0; f < variant.next_feeds.size(); ++f) {
        shares.push_back(ShareOf(variant, variant.next_feeds[f], r, f));
      }
      bound.SetNext(StreamOfRun(step + 1, writes), shares);
    }
    if (tracer_ != nullptr) {
      MF_RETURN_IF_ERROR(bound.RunTraced(drawn_from, options_.seed, deadline, &variant.spans[r]));
    } else {
      MF_RETURN_IF_ERROR(bound.Run(drawn_from, options_.seed, deadline));
    }
    CopyFetches(variant, r);
    return absl::OkStatus();
  };
  team_->Run([&](int r) {
    variant.statuses[r] = CatchOutOfMemory([&] { return work(r); });
    // The other replicas would wait for this one's collectives, unless it has completed the step.
    if (!variant.statuses[r].ok() && replicas_[r]->communicator() != nullptr &&
        !variant.bound[r]->completed()) {
      replicas_[r]->communicator()->Abort(variant.statuses[r]);
    }
  });
  for (const absl::Status& status : variant.statuses) {
    if (status.ok()) continue;
    const bool lost = std::any_of(variant.bound.begin(), variant.bound.end(),
                                  [](const auto& bound) { return bound->lost_late(); });
    return FailRun(variant, step, status, lost);
  }
  if (variant.bound[0]->unfinished()) unfinished_ = &variant;
  if (tracer_ != nullptr) AddTrace(variant, step);
  return absl::OkStatus();
}

absl::Status SessionState::FailRun(StepVariant& variant, uint64_t step, const absl::Status& status,
                                   bool lost_updates) {
  // After a failure, the prefetched tensors may be gone before the next run.
  for (const auto& bound : variant.bound) {
    bound->ForgetNext();
    bound->ForgetLate();
  }
  const bool wrote = std::any_of(variant.bound.begin(), variant.bound.end(),
                                 [](const auto& bound) { return bound->wrote(); });
  // If all replicas have completed the step, none of them waits for another.
  const bool completed = std::all_of(variant.bound.begin(), variant.bound.end(),
                                     [](const auto& bound) { return bound->completed(); });
  const absl::Status cause = completed && connection_.Check().ok()
                                 ? status
                                 : connection_.Break(status, step, ConnectDeadline());
  if (wrote || lost_updates) LoseUpdates(variant, cause);
  return cause;
}

void SessionState::LoseUpdates(const StepVariant& variant, const absl::Status& cause) {
  for (int v : variant.writes) variable_states_[v] = VariableState::kIndeterminate;
  indeterminate_cause_ = std::string(cause.message());
}

absl::Status SessionState::FinishUpdates() {
  if (unfinished_ == nullptr) return absl::OkStatus();
  StepVariant& variant = *std::exchange(unfinished_, nullptr);
  team_->Run([&](int r) {
    variant.statuses[r] = CatchOutOfMemory([&] { return variant.bound[r]->FinishLate(); });
    if (!variant.statuses[r].ok()) replicas_[r]->communicator()->Abort(variant.statuses[r]);
  });
  for (const absl::Status& status : variant.statuses) {
    if (!status.ok()) return FailRun(variant, next_step_ - 1, status, /*lost_updates=*/true);
  }
  if (tracer_ != nullptr) tracer_->EndFlights(absl::GetCurrentTimeNanos());
  return absl::OkStatus();
}

absl::StatusOr<StepOutputs> Step::Run(absl::Span<const Tensor> feeds, const RunOptions& options) {
  MF_RETURN_IF_ERROR(CheckUsable(state_.get()));
  SessionState& session = *state_->session;
  if (session.connection_.state() == Connection::State::kBroken) {
    MF_RETURN_IF_ERROR(session.Reconnect());
  }
  absl::StatusOr<StepOutputs> outputs =
      CatchOutOfMemory([&] { return session.RunStep(*state_, feeds, options); });
  const bool broken = session.connection_.state() == Connection::State::kBroken;
  // Other workers must not wait for a step in which this one does not take part. After a failure
  // between steps, the next step reconnects.
  if (!outputs.ok() && !broken &&
      (session.connection_.has_other_workers() || !session.connection_.Check().ok())) {
    outputs =
        session.connection_.Break(outputs.status(), session.next_step_, session.ConnectDeadline());
  }
  return outputs;
}

absl::StatusOr<StepOutputs> SessionState::RunStep(StepState& step, absl::Span<const Tensor> feeds,
                                                  const RunOptions& options) {
  MF_RETURN_IF_ERROR(connection_.Check());
  const std::vector<Output>& signature = step.signature.feeds;
  if (feeds.size() != signature.size()) {
    return absl::InvalidArgumentError(absl::StrCat("step: wrong number of feeds; expected ",
                                                   signature.size(), " (", FeedNames(signature),
                                                   "), got ", feeds.size()));
  }
  const bool local_feeds = options.local_feeds && connection_.has_other_workers();
  // Fast path without an allocation: the shapes are those of the last run.
  StepVariant* variant = step.last;
  bool same = variant != nullptr && HasStates(*variant) && variant->local_feeds == local_feeds &&
              std::equal(variant->replica_rows.begin(), variant->replica_rows.end(),
                         options.replica_rows.begin(), options.replica_rows.end());
  for (size_t i = 0; i < feeds.size(); ++i) {
    const Output& feed = signature[i];
    if (feeds[i].dtype() != feed.dtype()) {
      return absl::InvalidArgumentError(absl::StrCat("feed ", feed.ToString(), ": expected dtype ",
                                                     DataTypeName(feed.dtype()), ", got ",
                                                     DataTypeName(feeds[i].dtype())));
    }
    same = same && feeds[i].shape() == variant->fed_shapes[i];
  }
  if (!same) {
    std::vector<Shape> shapes;
    for (const Tensor& feed : feeds) shapes.push_back(feed.shape());
    std::vector<Shape> fed = shapes;
    if (local_feeds) {
      MF_ASSIGN_OR_RETURN(shapes, GlobalShapes(signature, feeds, options.replica_rows,
                                               connection_.local_ranks(), world_size()));
    }
    MF_ASSIGN_OR_RETURN(variant, FindVariant(step, shapes, options.replica_rows));
    variant->fed_shapes = std::move(fed);
    variant->local_feeds = local_feeds;
  }
  for (int v : variant->reads_first) {
    MF_RETURN_IF_ERROR(CheckDeterminate(v));
    if (variable_states_[v] == VariableState::kSet) continue;
    return absl::FailedPreconditionError(absl::StrCat("variable '", layout_.variables()[v].name,
                                                      "' is read, but nothing has initialised it"));
  }
  if (!variant->agreed && connection_.has_other_workers()) {
    MF_RETURN_IF_ERROR(AgreeOn(step, *variant));
  }
  last_run_ = nullptr;
  SetNextFeeds(*variant, options.next_feeds);
  MF_RETURN_IF_ERROR(RunVariant(*variant, feeds));
  for (int v : variant->writes) variable_states_[v] = VariableState::kSet;
  last_run_ = variant;
  step.last = variant;
  StepOutputs outputs;
  outputs.values_.assign(variant->outputs.begin(), variant->outputs.end());
  return outputs;
}

absl::StatusOr<StepPlans> CompileStep(const Step& step, absl::Span<const Shape> feed_shapes,
                                      const RunOptions& options) {
  StepState* const state = SessionState::StateOf(step);
  MF_RETURN_IF_ERROR(CheckUsable(state));
  MF_ASSIGN_OR_RETURN(StepVariant * variant,
                      state->session->FindVariant(*state, feed_shapes, options.replica_rows));
  StepPlans plans;
  plans.program = variant->program;
  for (const auto& bound : variant->bound) plans.plans.push_back(bound->shared_plan());
  return plans;
}

absl::StatusOr<PlanElsewhere> CompileStepFor(const Step& step, std::vector<Shape> feed_shapes,
                                             const Topology& topology, const LinkCosts& link) {
  const StepState* const state = SessionState::StateOf(step);
  MF_RETURN_IF_ERROR(CheckUsable(state));
  const SessionState& session = *state->session;
  SessionBackend backend;
  backend.ops = session.backend_.ops;
  backend.kernels = session.backend_.kernels;
  backend.passes = session.backend_.passes;
  backend.topology = topology;
  backend.has_teams = session.backend_.has_teams;
  backend.link = link;
  PlanElsewhere elsewhere;
  MF_ASSIGN_OR_RETURN(VariableLayout layout, session.LayOutVariables(topology, link));
  elsewhere.layout = std::make_unique<VariableLayout>(std::move(layout));
  GlobalSignature signature = {state->signature, std::move(feed_shapes)};
  signature.initialized.assign(session.variable_states_.size(), true);
  MF_ASSIGN_OR_RETURN(elsewhere.program,
                      session.backend_.compile(session.graph_, signature, *elsewhere.layout,
                                               backend, session.options_.compile));
  MF_ASSIGN_OR_RETURN(const RowShares shares,
                      ShareRows(elsewhere.program->state.axes, {}, topology.world_size()));
  std::vector<int64_t> rows;
  for (const std::vector<int64_t>& of_axis : shares) rows.push_back(of_axis[0]);
  MF_ASSIGN_OR_RETURN(elsewhere.plan,
                      session.backend_.compile_plan(*elsewhere.program, rows,
                                                    session.replicas_[0]->device().traits(),
                                                    /*tuning=*/nullptr));
  return elsewhere;
}

absl::Duration Step::host_time() const {
  return state_ == nullptr || state_->last == nullptr ? absl::ZeroDuration()
                                                      : state_->last->bound[0]->host_time();
}

absl::StatusOr<std::vector<Tensor>> Step::PerReplica(int i) const {
  MF_RETURN_IF_ERROR(CheckUsable(state_.get()));
  const SessionState& session = *state_->session;
  const StepVariant* variant = state_->last;
  if (variant == nullptr) return absl::FailedPreconditionError("the step has not run yet");
  const int fetches = static_cast<int>(state_->signature.fetches.size());
  if (i < 0 || i >= fetches) {
    return absl::InvalidArgumentError(
        absl::StrCat("step: no such fetch; expected 0 to ", fetches - 1, ", got ", i));
  }
  if (session.last_run_ != variant) {
    return absl::FailedPreconditionError(
        "step: the replicas' values are gone, because another step ran or a variable was assigned "
        "since; expected a call right after Run");
  }
  std::vector<Tensor> values;
  for (size_t r = 0; r < variant->bound.size(); ++r) {
    const BoundPlan& bound = *variant->bound[r];
    const PlannedFetch& fetch = bound.plan().fetches[i];
    MF_ASSIGN_OR_RETURN(Tensor value, Tensor::Allocate(fetch.dtype, fetch.local_shape));
    if (!IsFed(bound.plan(), fetch.operand)) {
      MF_RETURN_IF_ERROR(session.replicas_[r]->device().CopyOut(bound.fetch_address(i), value.raw(),
                                                                value.bytes()));
    } else {
      // The fed tensor may be freed by now, so the value is taken from the copy in the output.
      ForEachPiece(fetch, variant->outputs[i].shape(),
                   session.FirstLocalRow(*variant, fetch, bound),
                   [&](int64_t local, int64_t global, int64_t bytes) {
                     std::memcpy(value.raw() + local, variant->outputs[i].raw() + global, bytes);
                   });
    }
    values.push_back(std::move(value));
  }
  return values;
}

}  // namespace mirrorflow
