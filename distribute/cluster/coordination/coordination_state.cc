// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/coordination_state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"
#include "framework/core/status.h"
#include "framework/runtime/failure.h"

namespace mirrorflow {

// Declare before locking, so that the destructor, which delivers, runs after the unlock.
class CoordinationState::Answers {
 public:
  ~Answers() {
    for (auto& [done, result] : answers_) done(std::move(result));
  }
  void Add(Done done, absl::StatusOr<std::string> result) {
    answers_.emplace_back(std::move(done), std::move(result));
  }

 private:
  std::vector<std::pair<Done, absl::StatusOr<std::string>>> answers_;
};

void CoordinationState::End(std::list<Wait>::iterator wait, absl::StatusOr<std::string> result,
                            Answers* answers) {
  answers->Add(std::move(wait->done), std::move(result));
  waits_.erase(wait);
}

template <typename Condition>
void CoordinationState::EndIf(const Condition& condition, const absl::StatusOr<std::string>& result,
                              const absl::StatusOr<std::string>& failure, Answers* answers) {
  for (auto wait = waits_.begin(); wait != waits_.end();) {
    const auto next = std::next(wait);
    if (condition(*wait)) End(wait, wait->kind == Kind::kFailure ? failure : result, answers);
    wait = next;
  }
}

absl::Status CoordinationState::CheckIncarnation(uint64_t incarnation) const {
  if (incarnation == incarnation_) return failure_;
  return absl::FailedPreconditionError(absl::StrCat(
      "incarnation ", incarnation, " of the cluster has ended; expected ", incarnation_));
}

template <typename Present>
std::vector<int> CoordinationState::MissingFrom(const Present& present) const {
  std::vector<int> missing;
  for (int w = 0; w < num_workers_; ++w) {
    if (!present.contains(w)) missing.push_back(w);
  }
  return missing;
}

absl::Status CoordinationState::TimedOut(const Wait& wait) const {
  std::string what;
  std::vector<int> missing;
  switch (wait.kind) {
    case Kind::kJoin: {
      what = "join";
      // A worker that was here, and gave up a moment earlier, is not the one to blame.
      std::set<int> present = joining_;
      for (const auto& [worker, time] : gave_up_) {
        if (time >= wait.begun) present.insert(worker);
      }
      missing = MissingFrom(present);
      break;
    }
    case Kind::kGet:
      what = absl::StrCat("get '", wait.name, "'");
      break;
    case Kind::kAllGather:
      what = absl::StrCat("all-gather '", wait.name, "'");
      missing = MissingFrom(gathered_.find(wait.name)->second);
      break;
    case Kind::kFailure:
      break;  // has no deadline
  }
  const absl::Status status = absl::DeadlineExceededError(absl::StrCat(
      "worker ", wait.worker, ": ", what, ": deadline exceeded",
      missing.empty() ? "" : absl::StrCat("; missing worker ", absl::StrJoin(missing, ", "))));
  return missing.empty() ? status : WithFailure(status, {.worker = missing[0]});
}

absl::Status CoordinationState::CheckAllPresent() {
  missed_ = missed_ || !first_left_.ok();
  return first_left_;
}

absl::Status CoordinationState::failure() const {
  MutexLock lock(&mu_);
  if (!failure_.ok()) return failure_;
  return missed_ ? first_left_ : absl::OkStatus();
}

void CoordinationState::Leave(int worker, const absl::Status& why) {
  Answers answers;
  MutexLock lock(&mu_);
  if (first_left_.ok()) first_left_ = why;
  joining_.erase(worker);
  const auto needs_all = [](const Wait& wait) { return wait.kind != Kind::kFailure; };
  if (std::any_of(waits_.begin(), waits_.end(), needs_all)) {
    EndIf(needs_all, CheckAllPresent(), "", &answers);
  }
}

void CoordinationState::Join(int worker, MonotonicTime deadline, Done done) {
  Answers answers;
  MutexLock lock(&mu_);
  if (absl::Status status = CheckAllPresent(); !status.ok()) {
    answers.Add(std::move(done), status);
    return;
  }
  joining_.insert(worker);
  waits_.push_back({Kind::kJoin, worker, "", deadline, std::move(done)});
  if (static_cast<int>(joining_.size()) < num_workers_) return;
  // All other calls that still wait belong to the incarnation that ends here.
  EndIf([](const Wait& wait) { return wait.kind != Kind::kJoin; },
        absl::FailedPreconditionError("a new incarnation of the cluster has begun"), "", &answers);
  ++incarnation_;
  joining_.clear();
  store_.clear();
  store_bytes_ = 0;
  gathered_.clear();
  failure_ = absl::OkStatus();
  EndIf([](const Wait& wait) { return wait.kind == Kind::kJoin; }, absl::StrCat(incarnation_), "",
        &answers);
}

absl::Status CoordinationState::Put(int worker, uint64_t incarnation, absl::string_view key,
                                    std::string value, int gets) {
  Answers answers;
  MutexLock lock(&mu_);
  MF_RETURN_IF_ERROR(CheckIncarnation(incarnation));
  if (store_.contains(key)) {
    return absl::AlreadyExistsError(
        absl::StrCat("worker ", worker, ": key '", key, "' is already set"));
  }
  if (store_.size() >= kMaxKeys || value.size() > kMaxBytes - store_bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat("worker ", worker, ": put '", key,
                                                     "': the store is full; expected at most ",
                                                     kMaxKeys, " keys and ", kMaxBytes, " bytes"));
  }
  store_bytes_ += value.size();
  const auto entry = store_.emplace(std::string(key), Entry{std::move(value), gets}).first;
  const auto waits_for_it = [&](const Wait& wait) {
    return wait.kind == Kind::kGet && wait.name == key;
  };
  const auto count = std::count_if(waits_.begin(), waits_.end(), waits_for_it);
  EndIf(waits_for_it, entry->second.value, "", &answers);
  for (auto i = 0; i < count; ++i) CountGet(entry);
  return absl::OkStatus();
}

void CoordinationState::CountGet(std::map<std::string, Entry, std::less<>>::iterator entry) {
  if (entry->second.gets == 0 || --entry->second.gets > 0) return;
  store_bytes_ -= entry->second.value.size();
  store_.erase(entry);
}

void CoordinationState::Get(int worker, uint64_t incarnation, absl::string_view key,
                            MonotonicTime deadline, Done done, bool in_background) {
  Answers answers;
  MutexLock lock(&mu_);
  const auto entry = store_.find(key);
  if (absl::Status status = CheckIncarnation(incarnation); !status.ok()) {
    answers.Add(std::move(done), status);
  } else if (entry != store_.end()) {
    answers.Add(std::move(done), entry->second.value);
    CountGet(entry);
  } else if (status = CheckAllPresent(); !status.ok()) {
    answers.Add(std::move(done), status);
  } else {
    waits_.push_back(
        {Kind::kGet, worker, std::string(key), deadline, std::move(done), in_background});
  }
}

void CoordinationState::AllGather(int worker, uint64_t incarnation, absl::string_view name,
                                  std::string value, MonotonicTime deadline, Done done) {
  Answers answers;
  MutexLock lock(&mu_);
  absl::Status status = CheckIncarnation(incarnation);
  if (status.ok()) status = CheckAllPresent();
  if (!status.ok()) {
    answers.Add(std::move(done), status);
    return;
  }
  const auto gathered = gathered_.try_emplace(std::string(name)).first;
  gathered->second[worker] = std::move(value);
  waits_.push_back({Kind::kAllGather, worker, std::string(name), deadline, std::move(done)});
  const auto num_values = std::count_if(gathered->second.begin(), gathered->second.end(),
                                        [](const auto& one) { return one.second.has_value(); });
  if (num_values < num_workers_) return;
  std::vector<std::string> values;
  for (auto& [of, one] : gathered->second) values.push_back(*std::move(one));
  gathered_.erase(gathered);
  EndIf([&](const Wait& wait) { return wait.kind == Kind::kAllGather && wait.name == name; },
        JoinValues(values), "", &answers);
}

absl::Status CoordinationState::ReportFailure(uint64_t incarnation, const absl::Status& cause) {
  Answers answers;
  MutexLock lock(&mu_);
  MF_RETURN_IF_ERROR(CheckIncarnation(incarnation));  // or an earlier failure
  failure_ = cause;
  EndIf([](const Wait& wait) { return wait.kind != Kind::kJoin; }, cause, cause, &answers);
  return cause;
}

bool CoordinationState::HasFailed(uint64_t incarnation) const {
  MutexLock lock(&mu_);
  return !CheckIncarnation(incarnation).ok();
}

uint64_t CoordinationState::incarnation() const {
  MutexLock lock(&mu_);
  return incarnation_;
}

void CoordinationState::WaitForFailure(int worker, uint64_t incarnation, Done done) {
  Answers answers;
  MutexLock lock(&mu_);
  const auto cancelled = cancelled_.find(worker);
  if (incarnation != incarnation_ ||
      (cancelled != cancelled_.end() && cancelled->second == incarnation)) {
    answers.Add(std::move(done), "");
  } else if (!failure_.ok()) {
    answers.Add(std::move(done), failure_);
  } else {
    waits_.push_back({Kind::kFailure, worker, "", MonotonicTime::InfiniteFuture(), std::move(done),
                      /*in_background=*/true});
  }
}

void CoordinationState::AddWaiting(std::set<int>* workers) const {
  MutexLock lock(&mu_);
  for (const Wait& wait : waits_) {
    if (!wait.in_background) workers->insert(wait.worker);
  }
}

void CoordinationState::TakeBack(const Wait& wait) {
  const auto gathered = gathered_.find(wait.name);
  if (wait.kind != Kind::kAllGather || gathered == gathered_.end()) return;
  gathered->second[wait.worker] = std::nullopt;
  const bool any_waits = std::any_of(gathered->second.begin(), gathered->second.end(),
                                     [](const auto& value) { return value.second.has_value(); });
  if (!any_waits) gathered_.erase(gathered);
}

void CoordinationState::Expire(MonotonicTime now) {
  Answers answers;
  MutexLock lock(&mu_);
  std::vector<int> gave_up;  // those that joined count as present in the errors of all
  for (auto wait = waits_.begin(); wait != waits_.end();) {
    const auto next = std::next(wait);
    if (wait->deadline <= now) {
      if (wait->kind == Kind::kJoin) gave_up.push_back(wait->worker);
      const absl::Status timed_out = TimedOut(*wait);
      TakeBack(*wait);
      End(wait, timed_out, &answers);
    }
    wait = next;
  }
  for (const int worker : gave_up) {
    joining_.erase(worker);
    gave_up_[worker] = now;
  }
}

void CoordinationState::Fail(const absl::Status& why) {
  Answers answers;
  MutexLock lock(&mu_);
  if (failure_.ok()) failure_ = why;
  joining_.clear();
  EndIf([](const Wait&) { return true; }, why, why, &answers);
}

void CoordinationState::Cancel(int worker) {
  Answers answers;
  MutexLock lock(&mu_);
  joining_.erase(worker);
  cancelled_[worker] = incarnation_;
  const auto is_cancelled = [this](const auto& c) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return c.second == incarnation_;
  };
  if (static_cast<int>(cancelled_.size()) == num_workers_ &&
      std::all_of(cancelled_.begin(), cancelled_.end(), is_cancelled)) {
    store_.clear();  // the session is over
    store_bytes_ = 0;
  }
  for (const Wait& wait : waits_) {
    if (wait.worker == worker) TakeBack(wait);
  }
  EndIf([&](const Wait& wait) { return wait.worker == worker; },
        absl::CancelledError(absl::StrCat("worker ", worker, " has left")), "", &answers);
}

// The length of a value and a space come before it.
std::string JoinValues(absl::Span<const std::string> values) {
  std::string joined;
  for (const std::string& value : values) absl::StrAppend(&joined, value.size(), " ", value);
  return joined;
}

absl::StatusOr<std::vector<std::string>> SplitValues(absl::string_view joined, int count) {
  const auto malformed = [] { return absl::InternalError("coordination: malformed values"); };
  std::vector<std::string> values;
  while (!joined.empty()) {
    const size_t space = joined.find(' ');
    uint64_t size;
    if (space == joined.npos || !absl::SimpleAtoi(joined.substr(0, space), &size)) {
      return malformed();
    }
    joined.remove_prefix(space + 1);
    if (size > joined.size()) return malformed();
    values.emplace_back(joined.substr(0, size));
    joined.remove_prefix(size);
  }
  if (static_cast<int>(values.size()) != count) return malformed();
  return values;
}

}  // namespace mirrorflow
