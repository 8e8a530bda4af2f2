// SPDX-License-Identifier: Apache-2.0
#include "framework/session/session.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/session/session_memory.h"
#include "framework/session/session_variant.h"

namespace mirrorflow {

Session::Session(SessionBackend backend, SessionOptions options)
    : backend_(std::move(backend)), options_(std::move(options)) {}

Session::~Session() {
  // Threads first: they run what is destroyed after them.
  team_.reset();
}

absl::StatusOr<std::unique_ptr<Session>> Session::Create(const Graph& graph, SessionBackend backend,
                                                         SessionOptions options) {
  MF_RETURN_IF_ERROR(graph.status());
  if (backend.devices.empty()) return absl::InvalidArgumentError("expected a device or more");
  std::unique_ptr<Session> session(new Session(std::move(backend), std::move(options)));
  session->options_.compile.shard = session->backend_.world_size > 1;
  session->graph_ = graph.Clone();
  int64_t bucket_bytes = session->options_.bucket_bytes;
  if (bucket_bytes == 0) bucket_bytes = session->backend_.devices[0]->traits().bucket_bytes;
  MF_ASSIGN_OR_RETURN(session->layout_, VariableLayout::Create(session->graph_, bucket_bytes,
                                                               session->backend_.world_size,
                                                               session->SharesVariables()));
  MF_RETURN_IF_ERROR(CheckVariableMemory(session->layout_, session->backend_.devices.size(),
                                         session->options_.max_bytes));
  const int count = static_cast<int>(session->backend_.devices.size());
  for (int i = 0; i < count; ++i) {
    MF_ASSIGN_OR_RETURN(
        std::unique_ptr<Replica> replica,
        Replica::Create(session->backend_.devices[i].get(), session->backend_.first_rank + i,
                        session->layout_, i > 0 ? session->replicas_[0].get() : nullptr));
    session->replicas_.push_back(std::move(replica));
  }
  MF_RETURN_IF_ERROR(session->Connect());
  session->team_ = std::make_unique<ReplicaTeam>(count, session->options_.pin_threads);
  MF_RETURN_IF_ERROR(session->team_->status());
  session->variable_states_.assign(session->layout_.variables().size(), VariableState::kUnset);
  MF_RETURN_IF_ERROR(session->InitializeVariables());
  return session;
}

bool Session::SharesVariables() const {
  return backend_.ranks_share_memory && backend_.world_size > 1 &&
         !options_.compile.disabled_passes.contains("reduce_in_updates") &&
         std::all_of(backend_.devices.begin(), backend_.devices.end(),
                     [](const auto& device) { return device->traits().host_memory; });
}

absl::Status Session::Connect() {
  if (backend_.world_size == 1) return absl::OkStatus();
  for (const auto& step : steps_) {
    for (const auto& variant : step->variants) {
      for (const auto& bound : variant->bound) bound->DropRecording();
    }
  }
  MF_ASSIGN_OR_RETURN(communicators_, backend_.connect());
  if (communicators_.size() != replicas_.size()) {
    return absl::InternalError("expected one communicator for each local replica");
  }
  for (size_t i = 0; i < replicas_.size(); ++i) {
    replicas_[i]->set_communicator(communicators_[i].get());
    for (size_t r = 0; r < layout_.regions().size(); ++r) {
      if (!layout_.regions()[r].gradients || communicators_[i] == nullptr) continue;
      MF_RETURN_IF_ERROR(communicators_[i]->Register(
          replicas_[i]->layout_region(static_cast<int>(r)), layout_.regions()[r].bytes));
    }
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

absl::StatusOr<StepSignature> Session::Resolve(absl::Span<const Output> feeds,
                                               absl::Span<const Output> fetches,
                                               absl::Span<const Operation> targets) const {
  auto own_node = [&](const Output& output, absl::string_view what) -> absl::StatusOr<Node*> {
    if (!output.valid()) {
      return absl::InvalidArgumentError(absl::StrCat("a ", what, " is no output of any node"));
    }
    Node* node = output.node->id() < graph_.id_limit() ? graph_.node(output.node->id()) : nullptr;
    if (node == nullptr || node->name() != output.node->name()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the ", what, " ", output.ToString(),
                       " is not in the graph that the session was made of"));
    }
    return node;
  };
  auto own = [&](const Output& output, absl::string_view what) -> absl::StatusOr<Output> {
    MF_ASSIGN_OR_RETURN(Node * node, own_node(output, what));
    if (output.index < 0 || output.index >= node->num_outputs()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the ", what, " ", output.ToString(), ": the node has no such output; expected 0 to ",
          node->num_outputs() - 1, ", got ", output.index));
    }
    return node->output(output.index);
  };
  StepSignature signature;
  for (const Output& feed : feeds) {
    MF_ASSIGN_OR_RETURN(const Output output, own(feed, "feed"));
    const auto& given = signature.feeds;
    if (std::find(given.begin(), given.end(), output) != given.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the feed ", output.ToString(), " is given twice; expected it once"));
    }
    signature.feeds.push_back(output);
  }
  for (const Output& fetch : fetches) {
    MF_ASSIGN_OR_RETURN(const Output output, own(fetch, "fetch"));
    signature.fetches.push_back(output);
  }
  for (const Operation& target : targets) {
    MF_ASSIGN_OR_RETURN(Node * node, own_node(Output{target.node, 0}, "target"));
    signature.targets.push_back(node);
  }
  return signature;
}

absl::StatusOr<Step> Session::Prepare(absl::Span<const Output> feeds,
                                      absl::Span<const Output> fetches,
                                      absl::Span<const Operation> targets) {
  auto state = std::make_unique<Step::State>();
  state->session = this;
  MF_ASSIGN_OR_RETURN(state->signature, Resolve(feeds, fetches, targets));
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
  MF_ASSIGN_OR_RETURN(const StepSignature wanted, Resolve(feed_outputs, fetches, targets));
  const auto found = std::find_if(steps_.begin(), steps_.end(), [&](const auto& state) {
    const StepSignature& s = state->signature;
    return s.feeds == wanted.feeds && s.fetches == wanted.fetches && s.targets == wanted.targets;
  });
  Step step;
  if (found != steps_.end()) {
    step = Step(found->get());
  } else {
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

}  // namespace mirrorflow
