// SPDX-License-Identifier: Apache-2.0
//
// Running a compiled step of a session, and what is left when it has run or failed.
#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"
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

// Of the replicas' statuses after a failed step, the cause: an aborted communicator hands the first
// error to every rank, so those that are mere echoes of another come last.
absl::Status FirstCause(absl::Span<const absl::Status> statuses) {
  const absl::Status* first = nullptr;
  for (const absl::Status& status : statuses) {
    if (status.ok()) continue;
    // An echo ends with the message of what it repeats, and says more in front of it.
    bool is_echo = false;
    for (const absl::Status& other : statuses) {
      is_echo |= !other.ok() && other.message().size() < status.message().size() &&
                 absl::EndsWith(status.message(), other.message());
    }
    if (!is_echo && first == nullptr) first = &status;
  }
  return first != nullptr ? *first : absl::OkStatus();
}

bool IsFed(const Plan& plan, const Operand& operand) {
  return operand.region >= Plan::kFirstFeedRegion && operand.region < plan.layout_region(0);
}

// Calls copy(offset in the share, offset in the whole, bytes) for each piece of memory that makes
// up one replica's share of a fetch.
template <typename Copy>
absl::Status ForEachPiece(const PlannedFetch& fetch, absl::Span<const int64_t> first_rows,
                          const Copy& copy) {
  const auto size = static_cast<int64_t>(DataTypeSize(fetch.dtype));
  const Sharded* s = AsSharded(fetch.sharding);
  if (s == nullptr) return copy(0, 0, fetch.local_shape.num_elements() * size);
  int64_t outer = 1, inner = size;
  for (int d = 0; d < s->dim; ++d) outer *= fetch.global_shape.dim(d);
  for (int d = s->dim + 1; d < fetch.global_shape.rank(); ++d) inner *= fetch.global_shape.dim(d);
  const int64_t first = first_rows[s->axis] * s->factor * inner;
  const int64_t local = fetch.local_shape.dim(s->dim) * inner;
  const int64_t global = fetch.global_shape.dim(s->dim) * inner;
  for (int64_t o = 0; o < outer; ++o) {
    MF_RETURN_IF_ERROR(copy(o * local, o * global + first, local));
  }
  return absl::OkStatus();
}

// The piece of a global feed that is this replica's.
const std::byte* ShareOf(const Tensor& feed, const BoundPlan& bound, size_t index,
                         int64_t row_bytes) {
  const Sharded* s = AsSharded(bound.plan().feeds[index].sharding);
  return feed.raw() + (s != nullptr ? bound.first_rows()[s->axis] * row_bytes : 0);
}

}  // namespace

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
    MF_RETURN_IF_ERROR(
        ForEachPiece(fetch, bound.first_rows(), [&](int64_t local, int64_t global, int64_t bytes) {
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
  if (feeds.size() != variant.shapes.size()) return;
  for (size_t f = 0; f < feeds.size(); ++f) {
    if (feeds[f].dtype() != variant.bound[0]->plan().feeds[f].dtype ||
        feeds[f].shape() != variant.shapes[f]) {
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
      MF_RETURN_IF_ERROR(bound.SetFeed(static_cast<int>(f),
                                       ShareOf(feeds[f], bound, f, variant.feed_row_bytes[f])));
    }
    for (size_t f = 0; f < variant.next_feeds.size(); ++f) {
      MF_RETURN_IF_ERROR(
          bound.SetNextFeed(static_cast<int>(f),
                            ShareOf(variant.next_feeds[f], bound, f, variant.feed_row_bytes[f])));
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
  // After an abort every rank returns the first error, as the communicator passed it on.
  for (const absl::Status& status : variant.statuses) {
    if (!status.ok()) return AfterFailure(variant, FirstCause(variant.statuses));
  }
  PlaceViews(variant);
  if (trace_ != nullptr) AddTrace(variant, step);
  return absl::OkStatus();
}

absl::Status Session::AfterFailure(Variant& variant, const absl::Status& status) {
  // Nobody holds what they are copies of any more.
  for (const auto& bound : variant.bound) bound->ForgetNextFeeds();
  const bool wrote = std::any_of(variant.bound.begin(), variant.bound.end(),
                                 [](const auto& bound) { return bound->wrote(); });
  if (wrote) {
    for (int v : variant.writes) variable_states_[v] = VariableState::kIndeterminate;
    indeterminate_cause_ = std::string(status.message());
  }
  // An aborted communicator stays aborted; the next step gets new ones.
  absl::Status connected = Connect();
  return connected.ok() ? status : connected;
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
  if (feeds.size() != state_->signature.feeds.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected ", state_->signature.feeds.size(), " feeds, got ", feeds.size()));
  }
  // The common case, without an allocation: the shapes of the last run.
  Session::Variant* variant = state_->last;
  bool same = variant != nullptr && session.HasStates(*variant) &&
              std::equal(variant->replica_rows.begin(), variant->replica_rows.end(),
                         options.replica_rows.begin(), options.replica_rows.end());
  for (size_t i = 0; i < feeds.size(); ++i) {
    const Output& feed = state_->signature.feeds[i];
    if (feeds[i].dtype() != feed.dtype()) {
      return absl::InvalidArgumentError(absl::StrCat("feed ", feed.ToString(), ": expected dtype ",
                                                     DataTypeName(feed.dtype()), ", got ",
                                                     DataTypeName(feeds[i].dtype())));
    }
    same = same && feeds[i].shape() == variant->shapes[i];
  }
  if (!same) {
    std::vector<Shape> shapes;
    for (const Tensor& feed : feeds) shapes.push_back(feed.shape());
    MF_ASSIGN_OR_RETURN(variant, session.FindVariant(*state_, shapes, options.replica_rows));
  }
  for (int v : variant->reads_first) {
    MF_RETURN_IF_ERROR(session.CheckDeterminate(v));
    if (session.variable_states_[v] == Session::VariableState::kSet) continue;
    return absl::FailedPreconditionError(absl::StrCat("variable '",
                                                      session.layout_.variables()[v].name,
                                                      "' is read, but nothing has initialised it"));
  }
  session.last_run_ = nullptr;
  session.SetNextFeeds(*variant, options.next_feeds);
  MF_RETURN_IF_ERROR(session.RunVariant(*variant, feeds));
  for (int v : variant->writes) session.variable_states_[v] = Session::VariableState::kSet;
  session.last_run_ = variant;
  state_->last = variant;
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
          fetch, bound.first_rows(), [&](int64_t local, int64_t global, int64_t bytes) {
            std::memcpy(value.raw() + local, variant->outputs[i].raw() + global, bytes);
            return absl::OkStatus();
          }));
    }
    values.push_back(std::move(value));
  }
  return values;
}

}  // namespace mirrorflow
