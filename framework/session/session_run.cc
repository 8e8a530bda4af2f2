// SPDX-License-Identifier: Apache-2.0
//
// Running a compiled step of a session, and what is left when it has run or failed.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/core/status.h"
#include "framework/session/session_variant.h"
#include "framework/session/trace_session.h"

namespace mirrorflow {
namespace {

absl::Status NotPrepared() {
  return absl::FailedPreconditionError("step: used before it was made by Session::Prepare");
}

bool IsFed(const Plan& plan, const Operand& operand) {
  return operand.region >= Plan::kFirstFeedRegion && operand.region < plan.layout_region(0);
}

// Calls copy(offset in the share, offset in the output, bytes) for each piece of memory that makes
// up one replica's share of a fetch. `first_row`: of the share in the output, in rows of its axis.
template <typename Copy>
absl::Status ForEachPiece(const PlannedFetch& fetch, const Shape& output, int64_t first_row,
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
  for (int64_t o = 0; o < outer; ++o) {
    MF_RETURN_IF_ERROR(copy(o * local, o * whole + first, local));
  }
  return absl::OkStatus();
}

// The global shapes of feeds, of which those that are split have this worker's rows alone.
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

// Where a replica's rows of a split fetch begin in the output, which has all rows or, if the fetch
// is local, those of this worker.
int64_t Session::FirstLocalRow(const Variant& variant, const PlannedFetch& fetch,
                               const BoundPlan& bound) const {
  const Sharded* s = AsSharded(fetch.sharding);
  if (s == nullptr) return 0;
  return bound.first_rows()[s->axis] - variant.bound[0]->first_rows()[s->axis];
}

// The piece of a feed that is this replica's.
const std::byte* Session::ShareOf(const Variant& variant, const Tensor& feed, int replica,
                                  size_t index) const {
  const BoundPlan& bound = *variant.bound[replica];
  const Sharded* s = AsSharded(bound.plan().feeds[index].sharding);
  if (s == nullptr) return feed.raw();
  // The first row that the feed has.
  const int64_t first = variant.local_feeds ? variant.bound[0]->first_rows()[s->axis] : 0;
  return feed.raw() + (bound.first_rows()[s->axis] - first) * variant.feed_row_bytes[index];
}

absl::Status Session::CopyFetches(Variant& variant, int replica) {
  BoundPlan& bound = *variant.bound[replica];
  for (size_t i = 0; i < variant.outputs.size(); ++i) {
    const PlannedFetch& fetch = bound.plan().fetches[i];
    // What is whole on every replica is taken from the first.
    if (variant.output_is_view[i] || (AsSharded(fetch.sharding) == nullptr && replica != 0)) {
      continue;
    }
    const std::byte* from = bound.fetch_address(static_cast<int>(i));
    std::byte* to = variant.outputs[i].raw();
    MF_RETURN_IF_ERROR(ForEachPiece(
        fetch, variant.outputs[i].shape(), FirstLocalRow(variant, fetch, bound),
        [&](int64_t local, int64_t global, int64_t bytes) {
          return replicas_[replica]->device().CopyOut(from + local, to + global, bytes);
        }));
  }
  return absl::OkStatus();
}

// The arena moves when a larger step has run.
void Session::PlaceViews(Variant& variant) {
  for (size_t i = 0; i < variant.outputs.size(); ++i) {
    Tensor& output = variant.outputs[i];
    if (!variant.output_is_view[i] || !output.has_value()) continue;
    std::byte* address = variant.bound[0]->fetch_address(static_cast<int>(i));
    if (output.raw() == address) continue;
    output = Tensor::View(output.dtype(), output.shape(), address, nullptr);
  }
}

// Those of other shapes come in their own Run. Where kernels read the host's memory nothing
// travels.
void Session::SetNextFeeds(Variant& variant, absl::Span<const Tensor> feeds) {
  if (replicas_[0]->device().traits().host_memory) return;
  variant.next_feeds.clear();
  if (feeds.size() != variant.fed_shapes.size()) return;
  for (size_t f = 0; f < feeds.size(); ++f) {
    if (feeds[f].dtype() != variant.bound[0]->plan().feeds[f].dtype ||
        feeds[f].shape() != variant.fed_shapes[f]) {
      return;
    }
  }
  variant.next_feeds.assign(feeds.begin(), feeds.end());
}

absl::Status Session::RunVariant(Variant& variant, absl::Span<const Tensor> feeds) {
  const absl::Time deadline = absl::Now() + options_.step_timeout;
  const uint64_t step = next_step_++;
  if (trace_ != nullptr) variant.spans.resize(replicas_.size());
  auto work = [&](int r) -> absl::Status {
    BoundPlan& bound = *variant.bound[r];
    for (size_t f = 0; f < feeds.size(); ++f) {
      MF_RETURN_IF_ERROR(bound.SetFeed(static_cast<int>(f), ShareOf(variant, feeds[f], r, f)));
    }
    for (size_t f = 0; f < variant.next_feeds.size(); ++f) {
      MF_RETURN_IF_ERROR(
          bound.SetNextFeed(static_cast<int>(f), ShareOf(variant, variant.next_feeds[f], r, f)));
    }
    if (trace_ != nullptr) {
      MF_RETURN_IF_ERROR(bound.RunTraced(step, options_.seed, deadline, &variant.spans[r]));
    } else {
      MF_RETURN_IF_ERROR(bound.Run(step, options_.seed, deadline));
    }
    return CopyFetches(variant, r);
  };
  team_->Run([&](int r) {
    variant.statuses[r] = work(r);
    // The others would wait for this replica's collectives, unless it has come to its end.
    if (!variant.statuses[r].ok() && replicas_[r]->communicator() != nullptr &&
        !variant.bound[r]->completed()) {
      replicas_[r]->communicator()->Abort(variant.statuses[r]);
    }
  });
  for (const absl::Status& status : variant.statuses) {
    if (status.ok()) continue;
    // No replica holds what these are copies of any more.
    for (const auto& bound : variant.bound) bound->ForgetNextFeeds();
    const bool wrote = std::any_of(variant.bound.begin(), variant.bound.end(),
                                   [](const auto& bound) { return bound->wrote(); });
    // Replicas that have all come to the end of the step wait for nothing.
    const bool completed = std::all_of(variant.bound.begin(), variant.bound.end(),
                                       [](const auto& bound) { return bound->completed(); });
    const absl::Status cause = completed && connection_.Check().ok()
                                   ? status
                                   : connection_.Break(status, step, ConnectDeadline());
    if (wrote) {
      for (int v : variant.writes) variable_states_[v] = VariableState::kIndeterminate;
      indeterminate_cause_ = std::string(cause.message());
    }
    return cause;
  }
  PlaceViews(variant);
  if (trace_ != nullptr) AddTrace(variant, step);
  return absl::OkStatus();
}

void Session::AddTrace(const Variant& variant, uint64_t step) {
  for (size_t r = 0; r < variant.spans.size(); ++r) {
    AddTraceOfStep(variant.bound[r]->plan(), step, replicas_[r]->rank(),
                   replicas_[r]->device().name(), variant.spans[r], trace_);
  }
}

absl::StatusOr<StepOutputs> Step::Run(absl::Span<const Tensor> feeds, const RunOptions& options) {
  if (state_ == nullptr) return NotPrepared();
  Session& session = *state_->session;
  if (session.connection_.state() == Connection::State::kBroken) {
    MF_RETURN_IF_ERROR(session.Reconnect());
  }
  absl::StatusOr<StepOutputs> outputs = session.RunStep(*state_, feeds, options);
  if (outputs.ok() || session.connection_.state() == Connection::State::kBroken) return outputs;
  // Other workers must not wait for a step that this one does not take part in, and what has failed
  // between steps is connected again by the next.
  if (session.connection_.has_other_workers() || !session.connection_.Check().ok()) {
    return session.connection_.Break(outputs.status(), session.next_step_,
                                     session.ConnectDeadline());
  }
  return outputs;
}

absl::StatusOr<StepOutputs> Session::RunStep(Step::State& step, absl::Span<const Tensor> feeds,
                                             const RunOptions& options) {
  MF_RETURN_IF_ERROR(connection_.Check());
  const std::vector<Output>& signature = step.signature.feeds;
  if (feeds.size() != signature.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected ", signature.size(), " feeds, got ", feeds.size()));
  }
  const bool local_feeds = options.local_feeds && connection_.has_other_workers();
  // The common case, without an allocation: the shapes of the last run.
  Variant* variant = step.last;
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
  return StepOutputs(variant->outputs);
}

absl::StatusOr<StepPlans> Step::Compile(absl::Span<const Shape> feed_shapes,
                                        const RunOptions& options) {
  if (state_ == nullptr) return NotPrepared();
  MF_ASSIGN_OR_RETURN(Session::Variant * variant,
                      state_->session->FindVariant(*state_, feed_shapes, options.replica_rows));
  StepPlans plans;
  plans.program = variant->program;
  for (const auto& bound : variant->bound) plans.plans.push_back(bound->shared_plan());
  return plans;
}

absl::Duration Step::host_time() const {
  return state_ == nullptr || state_->last == nullptr ? absl::ZeroDuration()
                                                      : state_->last->bound[0]->host_time();
}

absl::StatusOr<std::vector<Tensor>> Step::PerReplica(int i) const {
  if (state_ == nullptr) return NotPrepared();
  const Session& session = *state_->session;
  const Session::Variant* variant = state_->last;
  if (variant == nullptr) return absl::FailedPreconditionError("the step has not run yet");
  const int fetches = static_cast<int>(state_->signature.fetches.size());
  if (i < 0 || i >= fetches) {
    return absl::InvalidArgumentError(
        absl::StrCat("step: no such fetch; expected 0 to ", fetches - 1, ", got ", i));
  }
  if (session.last_run_ != variant) {
    return absl::FailedPreconditionError(
        "step: the replicas' values are gone, because it was not the last to run, or a variable "
        "was "
        "assigned since; expected a call right after Run");
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
      // What was fed may be freed by now; each replica had its share of the copy that was made.
      MF_RETURN_IF_ERROR(ForEachPiece(
          fetch, variant->outputs[i].shape(), session.FirstLocalRow(*variant, fetch, bound),
          [&](int64_t local, int64_t global, int64_t bytes) {
            std::memcpy(value.raw() + local, variant->outputs[i].raw() + global, bytes);
            return absl::OkStatus();
          }));
    }
    values.push_back(std::move(value));
  }
  return values;
}

}  // namespace mirrorflow
