// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/coordination_state.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distribute/cluster/coordination/messages.h"
#include "distribute/cluster/coordination/value_list.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"
#include "framework/core/status.h"
#include "framework/runtime/failure.h"

namespace mirrorflow {

// Declare an Answers before locking `mu_`, because its destructor delivers the answers, and must
// run after the unlock.
class CoordinationState::Answers {
 public:
  ~Answers() {
    for (const auto& [done, answer] : answers_) done(answer);
  }
  void Add(Done done, const Answer& answer) { answers_.emplace_back(std::move(done), answer); }

 private:
  std::vector<std::pair<Done, Answer>> answers_;
};

void CoordinationState::Begin(int worker, Wait wait) {
  num_blocked_ += wait.kind != Kind::kFailure;
  if (wait.kind == Kind::kGet) readers_[wait.name].insert(worker);
  waits_[worker].push_back(std::move(wait));
}

void CoordinationState::End(int worker, std::list<Wait>::iterator wait, const Answer& answer,
                            Answers* answers) {
  num_blocked_ -= wait->kind != Kind::kFailure;
  if (wait->kind == Kind::kGet) {
    const auto readers = readers_.find(wait->name);
    readers->second.erase(readers->second.find(worker));
    if (readers->second.empty()) readers_.erase(readers);
  }
  answers->Add(std::move(wait->done), answer);
  const auto waits = waits_.find(worker);
  waits->second.erase(wait);
  if (waits->second.empty()) waits_.erase(waits);
}

template <typename Condition>
void CoordinationState::EndIf(int worker, const Condition& condition, const Answer& answer,
                              const Answer& failure, Answers* answers) {
  const auto waits = waits_.find(worker);
  if (waits == waits_.end()) return;
  std::vector<std::list<Wait>::iterator> ended;
  for (auto wait = waits->second.begin(); wait != waits->second.end(); ++wait) {
    if (condition(*wait)) ended.push_back(wait);
  }
  for (const auto wait : ended) {
    End(worker, wait, wait->kind == Kind::kFailure ? failure : answer, answers);
  }
}

template <typename Condition>
void CoordinationState::EndAllIf(const Condition& condition, const Answer& answer,
                                 const Answer& failure, Answers* answers) {
  for (auto it = waits_.begin(); it != waits_.end();) {
    const int worker = it->first;
    ++it;  // EndIf may remove the worker's list
    EndIf(worker, condition, answer, failure, answers);
  }
}

absl::Status CoordinationState::CheckIncarnation(uint64_t incarnation) const {
  if (incarnation == incarnation_) return failure_;
  return absl::FailedPreconditionError(absl::StrCat(
      "incarnation ", incarnation, " of the cluster has ended; expected ", incarnation_));
}

void CoordinationState::SetJoining(int worker, bool joining) {
  num_joining_ += static_cast<int>(joining) - static_cast<int>(joining_[worker]);
  joining_[worker] = joining;
}

std::vector<int> CoordinationState::MissingFrom(const Wait& wait) const {
  const auto gather = gathers_.find(wait.name);
  std::vector<int> missing;
  for (int w = 0; w < num_workers_; ++w) {
    bool is_present;
    if (wait.kind == Kind::kJoin) {
      // A worker that was also waiting and gave up a moment earlier is not missing.
      const auto gave_up = gave_up_.find(w);
      is_present = joining_[w] || (gave_up != gave_up_.end() && gave_up->second >= wait.begun);
    } else {
      is_present = gather == gathers_.end() || gather->second.values.contains(w);
    }
    if (!is_present) missing.push_back(w);
  }
  return missing;
}

absl::Status CoordinationState::CheckNoneLeft() {
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
  SetJoining(worker, false);
  if (num_blocked_ == 0) return;
  EndAllIf([](const Wait& wait) { return wait.kind != Kind::kFailure; }, CheckNoneLeft(), "",
           &answers);
}

void CoordinationState::Join(int worker, MonotonicTime deadline, Done done) {
  Answers answers;
  MutexLock lock(&mu_);
  if (absl::Status status = CheckNoneLeft(); !status.ok()) {
    answers.Add(std::move(done), status);
    return;
  }
  SetJoining(worker, true);
  Begin(worker, {Kind::kJoin, "", deadline, std::move(done)});
  if (num_joining_ < num_workers_) return;
  // All other calls still waiting are from the incarnation that ends here.
  EndAllIf([](const Wait& wait) { return wait.kind != Kind::kJoin; },
           absl::FailedPreconditionError("a new incarnation of the cluster has begun"), "",
           &answers);
  ++incarnation_;
  joining_.assign(num_workers_, false);
  num_joining_ = 0;
  store_.clear();
  store_bytes_ = 0;
  gathers_.clear();
  cancelled_.clear();
  failure_ = absl::OkStatus();
  EndAllIf([](const Wait& wait) { return wait.kind == Kind::kJoin; }, absl::StrCat(incarnation_),
           "", &answers);
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
  const size_t max_keys = kMaxKeys + kMaxKeysOfWorker * num_workers_;
  if (store_.size() >= max_keys || value.size() > kMaxBytes - store_bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat("worker ", worker, ": put '", key,
                                                     "': the store is full; expected at most ",
                                                     max_keys, " keys and ", kMaxBytes, " bytes"));
  }
  const size_t bytes = value.size();
  store_bytes_ += bytes;
  const auto entry = store_.emplace(std::string(key), Entry{std::move(value), gets, bytes}).first;
  const auto readers = readers_.find(key);
  if (readers == readers_.end()) return absl::OkStatus();
  const std::multiset<int> workers = readers->second;
  for (const int reader : workers) {
    EndIf(
        reader, [&](const Wait& wait) { return wait.kind == Kind::kGet && wait.name == key; },
        entry->second.value, "", &answers);
  }
  CountGets(entry, static_cast<int>(workers.size()));
  return absl::OkStatus();
}

void CoordinationState::CountGets(std::map<std::string, Entry, std::less<>>::iterator entry,
                                  int count) {
  int& gets = entry->second.gets;
  if (gets == 0) return;
  gets -= std::min(gets, count);
  if (gets > 0) return;
  store_bytes_ -= entry->second.bytes;
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
    CountGets(entry, 1);
  } else if (status = CheckNoneLeft(); !status.ok()) {
    answers.Add(std::move(done), status);
  } else {
    Begin(worker, {Kind::kGet, std::string(key), deadline, std::move(done), in_background});
  }
}

void CoordinationState::AllGather(int worker, uint64_t incarnation, absl::string_view name,
                                  std::string value, MonotonicTime deadline, Done done) {
  Answers answers;
  MutexLock lock(&mu_);
  absl::Status status = CheckIncarnation(incarnation);
  if (status.ok()) status = CheckNoneLeft();
  if (!status.ok()) {
    answers.Add(std::move(done), status);
    return;
  }
  const auto gather = gathers_.try_emplace(std::string(name)).first;
  std::optional<std::string>& own = gather->second.values[worker];
  gather->second.num_present += !own.has_value();
  own = std::move(value);
  Begin(worker, {Kind::kAllGather, std::string(name), deadline, std::move(done)});
  if (gather->second.num_present < num_workers_) return;
  std::vector<std::string> values;
  for (auto& [of, one] : gather->second.values) values.push_back(*std::move(one));
  gathers_.erase(gather);
  EndAllIf([&](const Wait& wait) { return wait.kind == Kind::kAllGather && wait.name == name; },
           JoinValues(values), "", &answers);
}

absl::Status CoordinationState::ReportFailure(uint64_t incarnation, const absl::Status& cause) {
  Answers answers;
  MutexLock lock(&mu_);
  MF_RETURN_IF_ERROR(CheckIncarnation(incarnation));  // also returns an earlier failure
  failure_ = cause;
  EndAllIf([](const Wait& wait) { return wait.kind != Kind::kJoin; }, cause, cause, &answers);
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
  if (incarnation != incarnation_ || cancelled_.contains(worker)) {
    answers.Add(std::move(done), "");
  } else if (!failure_.ok()) {
    answers.Add(std::move(done), failure_);
  } else {
    Begin(worker, {Kind::kFailure, "", MonotonicTime::InfiniteFuture(), std::move(done),
                   /*in_background=*/true});
  }
}

void CoordinationState::AddWaiting(std::vector<bool>* workers) const {
  MutexLock lock(&mu_);
  if (num_blocked_ == 0) return;
  for (const auto& [worker, waits] : waits_) {
    const auto is_blocked = [](const Wait& wait) { return !wait.in_background; };
    if (std::any_of(waits.begin(), waits.end(), is_blocked)) (*workers)[worker] = true;
  }
}

std::string CoordinationState::TextOf(const Wait& wait) {
  if (wait.kind == Kind::kAllGather) return absl::StrCat("all-gather '", wait.name, "'");
  return wait.kind == Kind::kGet ? absl::StrCat("get '", wait.name, "'") : "join";
}

void CoordinationState::AddWaitTexts(std::vector<std::string>* calls) const {
  MutexLock lock(&mu_);
  for (const auto& [worker, waits] : waits_) {
    for (const Wait& wait : waits) {
      if (!wait.in_background) (*calls)[worker] = TextOf(wait);
    }
  }
}

void CoordinationState::TakeBack(int worker, const Wait& wait) {
  const auto gather = gathers_.find(wait.name);
  if (wait.kind != Kind::kAllGather || gather == gathers_.end()) return;
  std::optional<std::string>& value = gather->second.values[worker];
  gather->second.num_present -= value.has_value();
  value = std::nullopt;
  if (gather->second.num_present == 0) gathers_.erase(gather);
}

void CoordinationState::Expire(MonotonicTime now) {
  Answers answers;
  MutexLock lock(&mu_);
  if (num_blocked_ == 0) return;
  std::vector<std::pair<int, std::list<Wait>::iterator>> expired;
  for (auto& [worker, waits] : waits_) {
    for (auto wait = waits.begin(); wait != waits.end(); ++wait) {
      if (wait->deadline <= now) expired.emplace_back(worker, wait);
    }
  }
  std::vector<int> gave_up;  // stay joined until all workers' errors have been made
  // Cached by all-gather name, because all workers' calls usually expire together.
  std::map<std::string, std::vector<int>> missing_from_gather;
  for (const auto& [worker, wait] : expired) {
    std::vector<int> missing;
    if (wait->kind == Kind::kAllGather) {
      const auto [known, is_new] = missing_from_gather.try_emplace(wait->name);
      if (is_new) known->second = MissingFrom(*wait);
      missing = known->second;
      TakeBack(worker, *wait);
    } else if (wait->kind == Kind::kJoin) {
      missing = MissingFrom(*wait);
      gave_up.push_back(worker);
    }
    const absl::Status timed_out = absl::DeadlineExceededError(
        absl::StrCat("worker ", worker, ": ", TextOf(*wait), ": deadline exceeded",
                     missing.empty() ? "" : "; missing worker ", FirstOf(missing)));
    End(worker, wait, missing.empty() ? timed_out : WithFailure(timed_out, {.worker = missing[0]}),
        &answers);
  }
  for (const int worker : gave_up) {
    SetJoining(worker, false);
    gave_up_[worker] = now;
  }
}

void CoordinationState::Fail(const absl::Status& why) {
  Answers answers;
  MutexLock lock(&mu_);
  if (failure_.ok()) failure_ = why;
  joining_.assign(num_workers_, false);
  num_joining_ = 0;
  EndAllIf([](const Wait&) { return true; }, why, why, &answers);
}

void CoordinationState::Cancel(int worker) {
  Answers answers;
  MutexLock lock(&mu_);
  SetJoining(worker, false);
  cancelled_.insert(worker);
  if (static_cast<int>(cancelled_.size()) == num_workers_) {
    store_.clear();  // the session is over
    store_bytes_ = 0;
  }
  const auto waits = waits_.find(worker);
  if (waits == waits_.end()) return;
  for (const Wait& wait : waits->second) TakeBack(worker, wait);
  EndIf(
      worker, [](const Wait&) { return true; },
      absl::CancelledError(absl::StrCat("worker ", worker, " has left")), "", &answers);
}

}  // namespace mirrorflow
