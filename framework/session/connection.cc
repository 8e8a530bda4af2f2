// SPDX-License-Identifier: Apache-2.0
#include "framework/session/connection.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/runtime/failure.h"

namespace mirrorflow {

void Connection::Disconnect() {
  if (workers_ != nullptr) workers_->OnFailure(nullptr);  // its callback uses the communicators
  for (Replica* replica : replicas_) replica->set_communicator(nullptr);
  replicas_.clear();
  communicators_.clear();
  state_ = State::kBroken;
}

absl::Status Connection::Join(absl::Time deadline) {
  Disconnect();
  if (workers_ == nullptr) {
    ++incarnation_;
  } else {
    MF_ASSIGN_OR_RETURN(incarnation_, workers_->Join(deadline));
  }
  state_ = State::kJoined;
  return absl::OkStatus();
}

absl::Status Connection::Connect(absl::Span<const std::unique_ptr<Replica>> replicas,
                                 absl::Time deadline) {
  if (topology_.world_size() == 1) {
    state_ = State::kConnected;
    return absl::OkStatus();
  }
  state_ = State::kBroken;  // until all are connected
  const std::vector<int> ranks = local_ranks();
  MF_ASSIGN_OR_RETURN(communicators_, connect_(topology_, ranks, workers_, incarnation_, deadline));
  if (communicators_.size() != ranks.size() || replicas.size() != ranks.size()) {
    communicators_.clear();
    return absl::InternalError("expected one communicator for each local replica");
  }
  for (size_t i = 0; i < replicas.size(); ++i) {
    replicas[i]->set_communicator(communicators_[i].get());
    replicas_.push_back(replicas[i].get());
    MF_RETURN_IF_ERROR(replicas[i]->RegisterGradients());
  }
  if (workers_ != nullptr) {
    workers_->OnFailure([this](const absl::Status& why) {
      for (const auto& communicator : communicators_) communicator->Abort(why);
    });
  }
  state_ = State::kConnected;
  return absl::OkStatus();
}

absl::Status Connection::Check() const {
  for (const auto& communicator : communicators_) MF_RETURN_IF_ERROR(communicator->status());
  return absl::OkStatus();
}

absl::Status Connection::Break(const absl::Status& cause, uint64_t step, absl::Time deadline) {
  for (const auto& communicator : communicators_) communicator->Abort(cause);
  // An earlier failure of any local rank wins.
  absl::Status first = communicators_.empty() ? cause : Check();
  const Failure where = FailureOf(first).value_or(Failure());
  int rank = where.rank;
  if (rank < 0 || rank >= topology_.world_size()) {
    const bool names_worker = where.worker >= 0 && where.worker < topology_.num_workers();
    rank = topology_.RanksOfWorker(names_worker ? where.worker : worker())[0];
  }
  first = WithFailure(first, {.rank = rank,
                              .worker = topology_.replicas[rank].worker,
                              .step = static_cast<int64_t>(step)});
  if (workers_ != nullptr) first = workers_->ReportFailure(first, deadline);
  failure_ = first;
  if (topology_.world_size() > 1) state_ = State::kBroken;
  return first;
}

}  // namespace mirrorflow
