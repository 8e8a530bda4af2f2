// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/session.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "framework/compiler/compile_plan.h"
#include "framework/core/status.h"
#include "framework/runtime/trace_session.h"

namespace mirrorflow {
namespace {

// The shares of one axis: as even as possible, the first ranks get one row more.
std::vector<int64_t> EvenRows(int64_t rows, int world_size) {
  std::vector<int64_t> shares(world_size, rows / world_size);
  for (int64_t r = 0; r < rows % world_size; ++r) ++shares[r];
  return shares;
}

std::string OutputKey(absl::Span<const Output> outputs) {
  return absl::StrJoin(outputs, ",", [](std::string* out, const Output& o) {
    absl::StrAppend(out, o.node->id(), ":", o.index);
  });
}

absl::Status NotPrepared() {
  return absl::FailedPreconditionError("step: used before it was made by Session::Prepare");
}

}  // namespace

// A step as compiled for one set of feed shapes and shares.
struct Session::Variant {
  std::vector<Shape> shapes;
  std::vector<int64_t> replica_rows;       // as asked for; empty: even
  std::vector<std::vector<int64_t>> rows;  // by axis and rank
  std::shared_ptr<const Program> program;
  std::vector<std::unique_ptr<BoundPlan>> bound;  // by local replica
  std::vector<absl::Status> statuses;
  std::vector<std::vector<int64_t>> feed_offsets;  // by local replica and feed: bytes
  std::vector<Tensor> outputs;
  std::vector<char> output_is_view;
  std::vector<int> reads_first;  // variables that must have a value before
  std::vector<int> writes;
  std::vector<std::vector<TraceSpan>> spans;
};

struct Step::State {
  Session* session = nullptr;
  StepSignature signature;
  std::vector<std::unique_ptr<Session::Variant>> variants;
  Session::Variant* last = nullptr;
};

Session::Session(SessionBackend backend, SessionOptions options)
    : backend_(std::move(backend)), options_(std::move(options)) {}

Session::~Session() {
  // Threads first: they run what is destroyed after them.
  team_.reset();
}

absl::StatusOr<std::unique_ptr<Session>> Session::Create(const Graph& graph, SessionBackend backend,
                                                         SessionOptions options) {
  MF_RETURN_IF_ERROR(graph.status());
  std::unique_ptr<Session> session(new Session(std::move(backend), std::move(options)));
  session->options_.compile.shard = session->backend_.world_size > 1;
  session->graph_ = graph.Clone();
  MF_ASSIGN_OR_RETURN(session->layout_,
                      VariableLayout::Create(session->graph_, session->options_.bucket_bytes,
                                             session->backend_.world_size));
  std::vector<int64_t> region_bytes;
  for (const LayoutRegion& region : session->layout_.regions()) {
    region_bytes.push_back(region.bytes);
  }
  const int count = static_cast<int>(session->backend_.devices.size());
  for (int i = 0; i < count; ++i) {
    MF_ASSIGN_OR_RETURN(std::unique_ptr<Replica> replica,
                        Replica::Create(session->backend_.devices[i].get(),
                                        session->backend_.first_rank + i, region_bytes));
    session->replicas_.push_back(std::move(replica));
  }
  MF_RETURN_IF_ERROR(session->Connect());
  session->team_ = std::make_unique<ReplicaTeam>(count, session->options_.pin_threads);
  MF_RETURN_IF_ERROR(session->team_->status());
  session->initialized_.assign(session->layout_.variables().size(), 0);
  MF_RETURN_IF_ERROR(session->InitializeVariables());
  return session;
}

absl::Status Session::Connect() {
  if (backend_.world_size == 1) return absl::OkStatus();
  MF_ASSIGN_OR_RETURN(communicators_, backend_.connect());
  if (communicators_.size() != replicas_.size()) {
    return absl::InternalError("expected one communicator for each local replica");
  }
  for (size_t i = 0; i < replicas_.size(); ++i) {
    replicas_[i]->set_communicator(communicators_[i].get());
  }
  return absl::OkStatus();
}

absl::StatusOr<Output> Session::FindOutput(absl::string_view name) const {
  int index = 0;
  const size_t colon = name.find(':');
  const absl::string_view node_name = name.substr(0, colon);
  if (colon != absl::string_view::npos && !absl::SimpleAtoi(name.substr(colon + 1), &index)) {
    return absl::InvalidArgumentError(absl::StrCat("'", name, "' names no output"));
  }
  Node* node = graph_.FindNode(node_name);
  if (node == nullptr || index < 0 || index >= node->num_outputs()) {
    return absl::NotFoundError(absl::StrCat("the graph has no output '", name, "'"));
  }
  return node->output(index);
}

absl::StatusOr<Step> Session::Prepare(absl::Span<const Output> feeds,
                                      absl::Span<const Output> fetches,
                                      absl::Span<const Operation> targets) {
  auto own = [&](const Output& output, absl::string_view what) -> absl::StatusOr<Output> {
    if (!output.valid()) {
      return absl::InvalidArgumentError(absl::StrCat("a ", what, " is no output of any node"));
    }
    Node* node = output.node->id() < graph_.id_limit() ? graph_.node(output.node->id()) : nullptr;
    if (node == nullptr || node->name() != output.node->name()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the ", what, " ", output.ToString(),
                       " is not in the graph that the session was made of"));
    }
    return node->output(output.index);
  };
  auto state = std::make_unique<Step::State>();
  state->session = this;
  for (const Output& feed : feeds) {
    MF_ASSIGN_OR_RETURN(const Output output, own(feed, "feed"));
    state->signature.feeds.push_back(output);
  }
  for (const Output& fetch : fetches) {
    MF_ASSIGN_OR_RETURN(const Output output, own(fetch, "fetch"));
    state->signature.fetches.push_back(output);
  }
  for (const Operation& target : targets) {
    MF_ASSIGN_OR_RETURN(const Output output, own(Output{target.node, 0}, "target"));
    state->signature.targets.push_back(output.node);
  }
  steps_.push_back(std::move(state));
  return Step(steps_.back().get());
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
  Step step;
  for (const auto& state : steps_) {
    const StepSignature& s = state->signature;
    if (OutputKey(s.feeds) == OutputKey(feed_outputs) &&
        OutputKey(s.fetches) == OutputKey(fetches) &&
        std::equal(s.targets.begin(), s.targets.end(), targets.begin(), targets.end(),
                   [](const Node* a, const Operation& b) { return a->id() == b.node->id(); })) {
      step = Step(state.get());
    }
  }
  if (step.state_ == nullptr) {
    MF_ASSIGN_OR_RETURN(step, Prepare(feed_outputs, fetches, targets));
  }
  MF_ASSIGN_OR_RETURN(const StepOutputs outputs, step.Run(values));
  std::vector<Tensor> copies;
  for (const Tensor& output : outputs) {
    MF_ASSIGN_OR_RETURN(Tensor copy, output.Clone());
    copies.push_back(std::move(copy));
  }
  return copies;
}

absl::StatusOr<std::unique_ptr<Session::Variant>> Session::CompileVariant(
    Step::State& step, std::vector<Shape> shapes, std::vector<int64_t> replica_rows) {
  auto variant = std::make_unique<Variant>();
  MF_ASSIGN_OR_RETURN(variant->program, backend_.compile(graph_, {step.signature, shapes}, layout_,
                                                         backend_, options_.compile));
  const Compilation& c = variant->program->state;
  if (!replica_rows.empty() && static_cast<int>(replica_rows.size()) != backend_.world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("replica_rows: expected a number for each of the ", backend_.world_size,
                     " replicas, got ", replica_rows.size()));
  }
  for (const Axis& axis : c.axes) {
    if (replica_rows.empty()) {
      variant->rows.push_back(EvenRows(axis.size, backend_.world_size));
      continue;
    }
    int64_t sum = 0;
    for (int64_t share : replica_rows) {
      sum += share < 0 || share > axis.size ? axis.size + 1 : share;  // and no overflow
    }
    if (sum != axis.size) {
      return absl::InvalidArgumentError(
          absl::StrCat("replica_rows: expected numbers from 0 on with the sum ", axis.size,
                       ", got ", absl::StrJoin(replica_rows, ",")));
    }
    variant->rows.push_back(replica_rows);
  }
  std::map<std::pair<std::string, std::vector<int64_t>>, std::shared_ptr<const Plan>> plans;
  for (const auto& replica : replicas_) {
    std::vector<int64_t> own, first;
    for (const std::vector<int64_t>& shares : variant->rows) {
      own.push_back(shares[replica->rank()]);
      int64_t before = 0;
      for (int r = 0; r < replica->rank(); ++r) before += shares[r];
      first.push_back(before);
    }
    const DeviceTraits& traits = replica->device().traits();
    std::shared_ptr<const Plan>& plan = plans[{traits.type, own}];
    if (plan == nullptr) {
      MF_ASSIGN_OR_RETURN(plan, CompilePlan(*variant->program, own, traits, *backend_.kernels));
    }
    MF_ASSIGN_OR_RETURN(std::unique_ptr<BoundPlan> bound, replica->Bind(plan, variant->rows));
    variant->bound.push_back(std::move(bound));
    std::vector<int64_t> offsets;
    for (const PlannedFeed& feed : plan->feeds) {
      const Sharded* s = AsSharded(feed.sharding);
      int64_t row_bytes = static_cast<int64_t>(DataTypeSize(feed.dtype));
      for (int d = 1; d < feed.global_shape.rank(); ++d) row_bytes *= feed.global_shape.dim(d);
      offsets.push_back(s != nullptr ? first[s->axis] * row_bytes : 0);
    }
    variant->feed_offsets.push_back(std::move(offsets));
  }
  const bool host_memory = replicas_[0]->device().traits().host_memory;
  const Plan& plan = variant->bound[0]->plan();
  for (size_t i = 0; i < plan.fetches.size(); ++i) {
    const PlannedFetch& fetch = plan.fetches[i];
    if (std::holds_alternative<PerReplica>(fetch.sharding)) {
      variant->output_is_view.push_back(true);
      variant->outputs.emplace_back();
      continue;
    }
    // A value that is whole on replica 0 is handed out where it lies, unless it is fed: then it
    // lies elsewhere in each step.
    const bool fed = fetch.operand.region >= Plan::kFirstFeedRegion &&
                     fetch.operand.region < plan.layout_region(0);
    variant->output_is_view.push_back(host_memory && !fed && AsSharded(fetch.sharding) == nullptr);
    if (variant->output_is_view.back()) {
      variant->outputs.push_back(Tensor::View(fetch.dtype, fetch.global_shape,
                                              variant->bound[0]->fetch_address(static_cast<int>(i)),
                                              nullptr));
      continue;
    }
    MF_ASSIGN_OR_RETURN(Tensor output, Tensor::Allocate(fetch.dtype, fetch.global_shape));
    variant->outputs.push_back(std::move(output));
  }
  MF_RETURN_IF_ERROR(FindVariableUses(c, &variant->reads_first, &variant->writes));
  variant->statuses.resize(replicas_.size());
  variant->shapes = std::move(shapes);
  variant->replica_rows = std::move(replica_rows);
  return variant;
}

absl::StatusOr<Session::Variant*> Session::FindVariant(Step::State& step,
                                                       absl::Span<const Shape> shapes,
                                                       absl::Span<const int64_t> rows) {
  auto matches = [&](const Variant& v) {
    return std::equal(v.shapes.begin(), v.shapes.end(), shapes.begin(), shapes.end()) &&
           std::equal(v.replica_rows.begin(), v.replica_rows.end(), rows.begin(), rows.end());
  };
  for (const auto& variant : step.variants) {
    if (matches(*variant)) return variant.get();
  }
  MF_ASSIGN_OR_RETURN(std::unique_ptr<Variant> variant,
                      CompileVariant(step, std::vector<Shape>(shapes.begin(), shapes.end()),
                                     std::vector<int64_t>(rows.begin(), rows.end())));
  step.variants.push_back(std::move(variant));
  return step.variants.back().get();
}

absl::Status Session::CopyFetches(Variant& variant, int replica) {
  BoundPlan& bound = *variant.bound[replica];
  for (size_t i = 0; i < variant.outputs.size(); ++i) {
    if (variant.output_is_view[i]) continue;
    const PlannedFetch& fetch = bound.plan().fetches[i];
    const Tensor& output = variant.outputs[i];
    const std::byte* from = bound.fetch_address(static_cast<int>(i));
    const Sharded* s = AsSharded(fetch.sharding);
    if (s == nullptr) {
      if (replica != 0) continue;
      MF_RETURN_IF_ERROR(replicas_[0]->device().CopyOut(from, output.raw(), output.bytes()));
      continue;
    }
    int64_t outer = 1, inner = static_cast<int64_t>(DataTypeSize(fetch.dtype)), first = 0;
    for (int d = 0; d < s->dim; ++d) outer *= fetch.global_shape.dim(d);
    for (int d = s->dim + 1; d < fetch.global_shape.rank(); ++d) inner *= fetch.global_shape.dim(d);
    for (int r = 0; r < replicas_[replica]->rank(); ++r) first += variant.rows[s->axis][r];
    const int64_t local = fetch.local_shape.dim(s->dim) * inner;
    const int64_t global = fetch.global_shape.dim(s->dim) * inner;
    for (int64_t o = 0; o < outer; ++o) {
      MF_RETURN_IF_ERROR(replicas_[replica]->device().CopyOut(
          from + o * local, output.raw() + o * global + first * s->factor * inner, local));
    }
  }
  return absl::OkStatus();
}

absl::Status Session::RunVariant(Variant& variant, absl::Span<const Tensor> feeds) {
  const absl::Time deadline = absl::Now() + options_.step_timeout;
  const uint64_t step = next_step_++;
  if (trace_ != nullptr) variant.spans.resize(replicas_.size());
  auto work = [&](int r) -> absl::Status {
    BoundPlan& bound = *variant.bound[r];
    for (size_t f = 0; f < feeds.size(); ++f) {
      MF_RETURN_IF_ERROR(
          bound.SetFeed(static_cast<int>(f), feeds[f].raw() + variant.feed_offsets[r][f]));
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
    // The others would wait for this replica's collectives.
    if (!variant.statuses[r].ok() && replicas_[r]->communicator() != nullptr) {
      replicas_[r]->communicator()->Abort(variant.statuses[r]);
    }
  });
  // After an abort every rank returns the first error, as the communicator passed it on.
  for (const absl::Status& status : variant.statuses) {
    if (!status.ok()) return AfterFailure(variant, FirstCause(variant.statuses));
  }
  if (trace_ != nullptr) AddTrace(variant);
  return absl::OkStatus();
}

absl::Status Session::AfterFailure(Variant& variant, const absl::Status& status) {
  for (const auto& bound : variant.bound) {
    if (!bound->wrote()) continue;
    indeterminate_ = absl::FailedPreconditionError(
        absl::StrCat("variables are indeterminate, because a step failed while it updated them (",
                     status.message(), "); assign them again, or make a new session"));
  }
  // An aborted communicator stays aborted; the next step gets new ones.
  absl::Status connected = Connect();
  return connected.ok() ? status : connected;
}

void Session::AddTrace(const Variant& variant) {
  for (size_t r = 0; r < variant.spans.size(); ++r) {
    AddTraceOfStep(variant.bound[r]->plan(), replicas_[r]->rank(), replicas_[r]->device().name(),
                   variant.spans[r], trace_);
  }
}

absl::StatusOr<StepOutputs> Step::Run(absl::Span<const Tensor> feeds, const RunOptions& options) {
  if (state_ == nullptr) return NotPrepared();
  Session& session = *state_->session;
  MF_RETURN_IF_ERROR(session.indeterminate_);
  if (feeds.size() != state_->signature.feeds.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected ", state_->signature.feeds.size(), " feeds, got ", feeds.size()));
  }
  // The common case, without an allocation: the shapes of the last run.
  Session::Variant* variant = state_->last;
  bool same =
      variant != nullptr && std::equal(variant->replica_rows.begin(), variant->replica_rows.end(),
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
    if (session.initialized_[v]) continue;
    return absl::FailedPreconditionError(absl::StrCat("variable '",
                                                      session.layout_.variables()[v].name,
                                                      "' is read, but nothing has initialised it"));
  }
  MF_RETURN_IF_ERROR(session.RunVariant(*variant, feeds));
  for (int v : variant->writes) session.initialized_[v] = 1;
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

absl::StatusOr<std::vector<Tensor>> Step::PerReplica(int i) const {
  if (state_ == nullptr) return NotPrepared();
  const Session::Variant* variant = state_->last;
  if (variant == nullptr) return absl::FailedPreconditionError("the step has not run yet");
  const int fetches = static_cast<int>(state_->signature.fetches.size());
  if (i < 0 || i >= fetches) {
    return absl::InvalidArgumentError(
        absl::StrCat("step: no such fetch; expected 0 to ", fetches - 1, ", got ", i));
  }
  std::vector<Tensor> values;
  for (size_t r = 0; r < variant->bound.size(); ++r) {
    const PlannedFetch& fetch = variant->bound[r]->plan().fetches[i];
    MF_ASSIGN_OR_RETURN(Tensor value, Tensor::Allocate(fetch.dtype, fetch.local_shape));
    MF_RETURN_IF_ERROR(state_->session->replicas_[r]->device().CopyOut(
        variant->bound[r]->fetch_address(i), value.raw(), value.bytes()));
    values.push_back(std::move(value));
  }
  return values;
}

}  // namespace mirrorflow
