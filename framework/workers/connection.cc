// SPDX-License-Identifier: Apache-2.0
#include "framework/workers/connection.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/json.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/stack_trace.h"
#include "framework/core/state_report.h"
#include "framework/core/status.h"
#include "framework/runtime/error_report.h"
#include "framework/runtime/failure.h"
#include "nlohmann/json.hpp"

namespace mirrorflow {
namespace {

constexpr absl::Duration kPollInterval = absl::Milliseconds(10);

// Returns the latest collectives of `worker` as a JSON array for an error file. Each entry holds
// the step, sequence number and name, whether the collective has finished here, and, as far as
// known, the ranks that had not started it when `failure` was noticed.
std::string CollectivesJson(const RunProgress& progress, const Topology& topology, int worker,
                            const absl::Status& failure) {
  using Json = nlohmann::ordered_json;
  // Number of collectives that each rank has started.
  std::map<int, uint64_t> started;
  for (const auto& [other, count] : CollectivesOf(failure)) {
    if (other < 0 || other >= topology.num_workers() || other == worker) continue;
    for (const int rank : topology.RanksOfWorker(other)) started[rank] = count;
  }
  const std::vector<int> own = topology.RanksOfWorker(worker);
  for (size_t r = 0; r < own.size(); ++r) {
    started[own[r]] = progress.log(static_cast<int>(r))->started();
  }
  const auto latest = std::ranges::max_element(own, {}, [&](int rank) { return started[rank]; });
  Json entries = Json::array();
  for (const CollectiveLog::Entry& entry :
       progress.log(static_cast<int>(latest - own.begin()))->Latest()) {
    Json missing = Json::array();
    for (const auto& [rank, count] : started) {
      if (count < entry.number) missing.push_back(rank);
    }
    entries.push_back({{"step", entry.step},
                       {"sequence", entry.sequence},
                       {"name", entry.name},
                       {"finished", entry.finished},
                       {"missing_ranks", std::move(missing)}});
  }
  return JsonText(entries);
}

}  // namespace

void Connection::Disconnect() {
  has_noticed_ = true;
  if (workers_ != nullptr) workers_->OnFailure(nullptr);  // its callback uses the communicators
  for (Replica* replica : replicas_) replica->set_communicator(nullptr);
  replicas_.clear();
  communicators_.clear();
  state_ = State::kBroken;
}

absl::Status Connection::Join(MonotonicTime deadline) {
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
                                 MonotonicTime deadline) {
  ShareProgress(replicas);
  if (topology_.world_size() == 1) {
    state_ = State::kConnected;
    return absl::OkStatus();
  }
  state_ = State::kBroken;  // until all are connected
  has_noticed_ = false;
  const std::vector<int> ranks = local_ranks();
  MF_ASSIGN_OR_RETURN(communicators_,
                      connect_(topology_, ranks, workers_.get(), incarnation_, deadline));
  if (communicators_.size() != ranks.size() || replicas.size() != ranks.size()) {
    communicators_.clear();
    return absl::InternalError("expected one communicator for each local replica");
  }
  for (size_t i = 0; i < replicas.size(); ++i) {
    replicas[i]->set_communicator(communicators_[i].get(), topology_.DomainSpansWorkers(ranks[i]));
    replicas_.push_back(replicas[i].get());
    MF_RETURN_IF_ERROR(replicas[i]->RegisterGradients());
  }
  if (workers_ != nullptr) {
    const std::thread::id connecting = std::this_thread::get_id();
    workers_->OnFailure([this, connecting](const absl::Status& why) {
      TakeFailure(why);
      // If a failure is already known, OnFailure calls this function on the connecting thread,
      // which cannot wait for itself. The session notices that failure in its next step.
      if (std::this_thread::get_id() != connecting) AwaitNotice(why);
    });
  }
  state_ = State::kConnected;
  return absl::OkStatus();
}

void Connection::ShareProgress(absl::Span<const std::unique_ptr<Replica>> replicas) {
  progress_ = std::make_shared<RunProgress>(static_cast<int>(replicas.size()));
  for (size_t r = 0; r < replicas.size(); ++r) {
    const std::shared_ptr<CollectiveLog>& log = progress_->log(static_cast<int>(r));
    if (!replicas[r]->device().traits().inline_lanes) log->SetWorksAhead();
    replicas[r]->set_collective_log(log);
  }
  report_ = std::make_unique<StateReport>([worker = worker(), progress = progress_] {
    return std::vector<std::string>{
        absl::StrCat("worker ", worker, ": ", progress->position().ToString())};
  });
  if (workers_ == nullptr) return;
  progress_->TimeRunsAndWaits();  // a straggler is the worker that waits least
  workers_->ShareProgress(progress_);
}

void Connection::TakeFailure(const absl::Status& why) {
  progress_->SetBroken();
  for (const auto& communicator : communicators_) communicator->Abort(why);
}

void Connection::AwaitNotice(const absl::Status& why) {
  if (hang_policy_.end_process == nullptr) return;
  const MonotonicTime failed = MonotonicTime::Now();
  while (!has_noticed_) {
    absl::SleepFor(kPollInterval);
    const bool is_running = progress_->position().running;
    const absl::Duration limit = is_running ? hang_policy_.inside_step : hang_policy_.between_steps;
    if (has_noticed_ || MonotonicTime::Now() < failed + limit) continue;
    hang_policy_.end_process(WithDetails(
        WithStep(why, /*step=*/-1), CollectivesJson(*progress_, topology_, worker(), why), ""));
  }
}

absl::Status Connection::failure() const {
  MutexLock lock(&mutex_);
  return failure_;
}

absl::Status Connection::Check() const {
  for (const auto& communicator : communicators_) {
    const absl::Status status = communicator->status();
    if (status.ok()) continue;
    has_noticed_ = true;
    return status;
  }
  return absl::OkStatus();
}

absl::Status Connection::WithStep(const absl::Status& failure, int64_t step) const {
  const Failure where = FailureOf(failure).value_or(Failure());
  int rank = where.rank;
  if (rank < 0 || rank >= topology_.world_size()) {
    const bool names_worker = where.worker >= 0 && where.worker < topology_.num_workers();
    rank = topology_.RanksOfWorker(names_worker ? where.worker : worker())[0];
  }
  return WithFailure(failure,
                     {.rank = rank, .worker = topology_.replicas[rank].worker, .step = step});
}

absl::Status Connection::Break(const absl::Status& cause, uint64_t step, MonotonicTime deadline) {
  has_noticed_ = true;
  for (const auto& communicator : communicators_) communicator->Abort(cause);
  // An earlier failure of any local rank wins.
  absl::Status first =
      WithStep(communicators_.empty() ? cause : Check(), static_cast<int64_t>(step));
  if (workers_ != nullptr) {
    first = WithStep(workers_->ReportFailure(first, deadline), static_cast<int64_t>(step));
  }
  if (progress_ != nullptr) {
    // Other workers may not know the last step of a lost worker, so add this worker's step.
    const uint64_t at = progress_->position().step;
    if (absl::IsUnavailable(first) && at > 0) first = Annotate(first, absl::StrCat("step ", at));
    first =
        WithDetails(first, CollectivesJson(*progress_, topology_, worker(), first), CaptureStack());
  }
  {
    MutexLock lock(&mutex_);
    failure_ = first;
  }
  if (topology_.world_size() > 1) state_ = State::kBroken;
  return first;
}

}  // namespace mirrorflow
