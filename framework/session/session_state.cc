// SPDX-License-Identifier: Apache-2.0
#include "framework/session/session_state.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "framework/core/buffer.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/out_of_memory.h"
#include "framework/core/status.h"
#include "framework/session/session_memory.h"
#include "framework/session/step_state.h"

namespace mirrorflow {
namespace {

// Alignment of the regions that workers share: each begins on a page of its own.
constexpr size_t kSharedAlignment = 4096;

}  // namespace

SessionState::SessionState(SessionBackend backend, SessionOptions options)
    : backend_(std::move(backend)),
      options_(std::move(options)),
      connection_(backend_.topology, backend_.workers, backend_.connect, backend_.hang_policy) {}

SessionState::~SessionState() {
  tracer_ = nullptr;  // its trace may be gone
  // Other workers may need what this one has in flight.
  FinishUpdates().IgnoreError();
  // Transfers in flight after a failure use the steps, and their recordings the communicators.
  DropRecordings();
  connection_.Disconnect();
  // The threads go first: they use the members that are destroyed below.
  team_.reset();
  for (const auto& step : steps_) {
    step->last = nullptr;
    step->variants.clear();
    step->session = nullptr;
  }
}

absl::StatusOr<std::unique_ptr<SessionState>> SessionState::Create(const Graph& graph,
                                                                   SessionBackend backend,
                                                                   SessionOptions options) {
  MF_RETURN_IF_ERROR(graph.status());
  MF_RETURN_IF_ERROR(backend.topology.Check());
  std::unique_ptr<SessionState> session(new SessionState(std::move(backend), std::move(options)));
  const absl::Status made = session->Initialize(graph);
  if (made.ok()) return session;
  // Once it has joined, the other workers wait for this one to take part in the initialisation.
  Connection& connection = session->connection_;
  const bool is_awaited =
      connection.has_other_workers() && connection.state() != Connection::State::kBroken;
  return is_awaited ? connection.Break(made, session->next_step_, session->ConnectDeadline())
                    : made;
}

absl::Status SessionState::Initialize(const Graph& graph) {
  const std::vector<int> ranks = connection_.local_ranks();
  if (ranks.empty() || ranks.size() != backend_.devices.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "session: wrong number of devices; expected one for each local replica, ", ranks.size(),
        " in ", backend_.topology.ToString(), "; got ", backend_.devices.size()));
  }
  if (options_.compile.kernels.autotune) {
    tuning_ = std::make_unique<TuningTable>(/*measures=*/connection_.worker() == 0);
  }
  graph_ = graph.Clone();
  MF_ASSIGN_OR_RETURN(layout_, LayOutVariables(backend_.topology, backend_.link));
  MF_RETURN_IF_ERROR(CheckVariableMemory(layout_, ranks.size(), options_.max_bytes));
  team_ = std::make_unique<ReplicaTeam>(static_cast<int>(ranks.size()), options_.pin_threads,
                                        backend_.core_sharers);
  MF_RETURN_IF_ERROR(team_->status());
  MF_RETURN_IF_ERROR(connection_.Join(PrepareDeadline()));
  if (connection_.has_other_workers()) {
    MF_RETURN_IF_ERROR(AgreeOnVariables());
    MF_RETURN_IF_ERROR(TakeSeedOfWorker0());
  }
  MF_ASSIGN_OR_RETURN(const SharedRegions shared, AllocateSharedRegions());
  for (size_t i = 0; i < ranks.size(); ++i) {
    MF_ASSIGN_OR_RETURN(std::unique_ptr<Replica> replica,
                        Replica::Create(backend_.devices[i].get(), ranks[i], layout_, shared));
    replicas_.push_back(std::move(replica));
  }
  if (connection_.has_other_workers()) {
    // Connect() waits only for workers that are ready, and some may still be allocating memory.
    MF_RETURN_IF_ERROR(connection_.workers()->Barrier("created replicas", PrepareDeadline()));
  }
  MF_RETURN_IF_ERROR(connection_.Connect(replicas_, ConnectDeadline()));
  variable_states_.assign(layout_.variables().size(), VariableState::kUnset);
  MF_RETURN_IF_ERROR(InitializeVariables());
  if (!connection_.has_other_workers()) return absl::OkStatus();
  // Workers may compute initial values on processors that round differently.
  std::vector<int> all(layout_.variables().size());
  std::iota(all.begin(), all.end(), 0);
  return TakeVariablesOfRank0(all);
}

absl::StatusOr<VariableLayout> SessionState::LayOutVariables(const Topology& topology,
                                                             const LinkCosts& link) const {
  const DeviceTraits& traits = backend_.devices[0]->traits();
  const auto lay_out = [&](int64_t bucket_bytes) {
    return VariableLayout::Create(graph_, bucket_bytes, topology.world_size(), SharesVariables());
  };
  if (options_.bucket_bytes != 0) return lay_out(options_.bucket_bytes);
  MF_ASSIGN_OR_RETURN(VariableLayout layout, lay_out(traits.bucket_bytes));
  if (!traits.host_memory || topology.num_domains() == 1) return layout;
  int64_t bytes = 0;
  for (const BucketInfo& bucket : layout.buckets()) bytes += bucket.bytes;
  return lay_out(link.BucketBytes(bytes));
}

bool SessionState::SharesVariables() const {
  return backend_.has_teams && world_size() > 1 &&
         !options_.compile.disabled_passes.contains("reduce_in_updates") &&
         std::all_of(backend_.devices.begin(), backend_.devices.end(),
                     [](const auto& device) { return device->traits().host_memory; });
}

absl::StatusOr<SessionState::SharedRegions> SessionState::AllocateSharedRegions() {
  const std::vector<LayoutRegion>& regions = layout_.regions();
  SharedRegions shared(regions.size());
  if (backend_.share_memory == nullptr) {
    for (size_t r = 0; r < regions.size(); ++r) {
      if (!regions[r].shared) continue;
      MF_ASSIGN_OR_RETURN(shared[r], backend_.devices[0]->Allocate(regions[r].bytes));
    }
    return shared;
  }
  const int first_rank = connection_.local_ranks()[0];
  const int domain = backend_.topology.replicas[first_rank].domain;
  writes_shared_ = backend_.topology.RanksOfDomain(domain)[0] == first_rank;
  const auto aligned = [](int64_t bytes) { return AlignUp(bytes, kSharedAlignment); };
  size_t total = 0;
  for (const LayoutRegion& region : regions) total += region.shared ? aligned(region.bytes) : 0;
  if (total == 0) return shared;
  MF_ASSIGN_OR_RETURN(
      std::shared_ptr<std::byte> memory,
      backend_.share_memory(total, "variables", *backend_.workers, PrepareDeadline()));
  std::byte* next = memory.get();
  for (size_t r = 0; r < regions.size(); ++r) {
    if (!regions[r].shared) continue;
    shared[r] = std::shared_ptr<std::byte>(memory, next);
    next += aligned(regions[r].bytes);
  }
  return shared;
}

bool SessionState::Writes(const Replica& replica, const VariableInfo& variable) const {
  return !layout_.regions()[variable.region].shared ||
         (writes_shared_ && &replica == replicas_[0].get());
}

void SessionState::DropRecordings() {
  for (const auto& step : steps_) {
    for (const auto& variant : step->variants) {
      for (const auto& bound : variant->bound) bound->DropRecording();
    }
  }
}

absl::Status SessionState::Reconnect() {
  for (const auto& step : steps_) {
    for (const auto& variant : step->variants) variant->agreed = false;
  }
  DropRecordings();
  if (unfinished_ != nullptr) {
    for (const auto& bound : unfinished_->bound) bound->ForgetLate();
    LoseUpdates(*std::exchange(unfinished_, nullptr), connection_.failure());
  }
  num_agreements_ = num_gathered_traces_ = 0;
  MF_RETURN_IF_ERROR(connection_.Join(PrepareDeadline()));
  return connection_.Connect(replicas_, ConnectDeadline());
}

absl::Status SessionState::OnEachReplica(absl::FunctionRef<absl::Status(Replica&, Lane&)> work) {
  std::vector<absl::Status> statuses(replicas_.size());
  const RunProgress::Run run(connection_.progress(), next_step_);
  team_->Run([&](int r) {
    Replica& replica = *replicas_[r];
    if (replica.communicator() != nullptr) replica.communicator()->BeginStep(next_step_);
    constexpr LaneKind kLane = LaneKind::kCommunicate;
    statuses[r] = replica.device().Execute(
        {.count = 1,
         .lane_of = [](int) { return kLane; },
         .repetition_of = [](int) { return Repetition::kNone; },
         .run =
             [&](int) {
               return CatchOutOfMemory([&] { return work(replica, replica.device().lane(kLane)); });
             },
         .meanwhile = [] {},
         .deadline = MonotonicTime::Now() + options_.step_timeout,
         .recording = nullptr,
         .outcome = nullptr});
    // The other replicas would wait for this one's collectives.
    if (!statuses[r].ok() && replica.communicator() != nullptr) {
      replica.communicator()->Abort(statuses[r]);
    }
  });
  for (const absl::Status& status : statuses) {
    if (!status.ok()) return connection_.Break(status, next_step_, ConnectDeadline());
  }
  return absl::OkStatus();
}

absl::StatusOr<Output> SessionState::FindOutput(absl::string_view name) const {
  int index = 0;
  const size_t colon = name.find(':');
  const absl::string_view node_name = name.substr(0, colon);
  if (colon != absl::string_view::npos && !absl::SimpleAtoi(name.substr(colon + 1), &index)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", name, "': not the name of an output; expected `node` or `node:1`"));
  }
  Node* node = graph_.FindNode(node_name);
  if (node == nullptr || index < 0 || index >= node->num_outputs()) {
    return absl::NotFoundError(absl::StrCat("the graph has no output '", name, "'"));
  }
  return node->output(index);
}

absl::StatusOr<StepSignature> SessionState::Resolve(absl::Span<const Output> feeds,
                                                    absl::Span<const Output> fetches,
                                                    absl::Span<const Operation> targets) const {
  const auto own_node = [&](Node* node, absl::string_view what) -> absl::StatusOr<Node*> {
    absl::StatusOr<Node*> copy = graph_.CopyOf(node, "session", "NewSession");
    if (copy.ok()) return copy;
    return absl::InvalidArgumentError(
        absl::StrCat(what, node == nullptr ? ": " : " ", copy.status().message()));
  };
  const auto own = [&](const Output& output, absl::string_view kind,
                       size_t index) -> absl::StatusOr<Output> {
    const std::string what = absl::StrCat(kind, " ", index);
    MF_ASSIGN_OR_RETURN(Node * node, own_node(output.node, what));
    if (output.index < 0 || output.index >= node->num_outputs()) {
      return absl::InvalidArgumentError(absl::StrCat(
          what, " '", output.ToString(), "': the node has no such output; expected 0 to ",
          node->num_outputs() - 1, ", got ", output.index));
    }
    if (output.dtype() == DT_RESOURCE) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, " '", output.ToString(),
                       "': a variable's handle, which has no value; expected the "
                       "output of its read (Variable::value), or Session::ReadVariable"));
    }
    return node->output(output.index);
  };
  StepSignature signature;
  for (size_t i = 0; i < feeds.size(); ++i) {
    MF_ASSIGN_OR_RETURN(const Output output, own(feeds[i], "feed", i));
    const auto& given = signature.feeds;
    if (std::find(given.begin(), given.end(), output) != given.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the feed ", output.ToString(), " is given twice; expected it once"));
    }
    signature.feeds.push_back(output);
  }
  for (size_t i = 0; i < fetches.size(); ++i) {
    MF_ASSIGN_OR_RETURN(const Output output, own(fetches[i], "fetch", i));
    signature.fetches.push_back(output);
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    MF_ASSIGN_OR_RETURN(Node * node, own_node(targets[i].node, absl::StrCat("target ", i)));
    signature.targets.push_back(node);
  }
  return signature;
}

absl::StatusOr<Step> SessionState::Prepare(absl::Span<const Output> feeds,
                                           absl::Span<const Output> fetches,
                                           absl::Span<const Operation> targets,
                                           const PrepareOptions& options) {
  auto state = std::make_shared<StepState>();
  state->session = this;
  MF_ASSIGN_OR_RETURN(state->signature, Resolve(feeds, fetches, targets));
  MF_ASSIGN_OR_RETURN(const StepSignature local, Resolve({}, options.local_fetches, {}));
  for (const Output& fetch : local.fetches) {
    if (absl::c_linear_search(state->signature.fetches, fetch)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("local_fetches: expected some of the fetches, got ", fetch.ToString()));
  }
  state->signature.gathers_fetches = connection_.has_other_workers();
  state->signature.local_fetches = local.fetches;
  steps_.push_back(std::move(state));
  return Step(steps_.back());
}

absl::StatusOr<std::vector<Tensor>> SessionState::Run(
    absl::Span<const std::pair<Output, Tensor>> feeds, absl::Span<const Output> fetches,
    absl::Span<const Operation> targets) {
  std::vector<Output> feed_outputs;
  std::vector<Tensor> values;
  for (const auto& [output, value] : feeds) {
    feed_outputs.push_back(output);
    values.push_back(value);
  }
  MF_ASSIGN_OR_RETURN(const StepSignature wanted, Resolve(feed_outputs, fetches, targets));
  const auto found = std::find_if(steps_.begin(), steps_.end(), [&](const auto& state) {
    const StepSignature& s = state->signature;
    return s.feeds == wanted.feeds && s.fetches == wanted.fetches && s.targets == wanted.targets &&
           s.local_fetches.empty();
  });
  Step step;
  if (found != steps_.end()) {
    step = Step(*found);
  } else {
    MF_ASSIGN_OR_RETURN(step, Prepare(feed_outputs, fetches, targets, {}));
  }
  MF_ASSIGN_OR_RETURN(const StepOutputs outputs, step.Run(values));
  return std::vector<Tensor>(outputs.begin(), outputs.end());
}

}  // namespace mirrorflow
