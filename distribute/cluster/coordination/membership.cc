// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/membership.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "distribute/cluster/coordination/members.h"
#include "distribute/cluster/coordination/messages.h"
#include "distribute/cluster/coordination/worker_process.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"
#include "framework/core/status.h"
#include "framework/runtime/failure.h"

namespace mirrorflow {
namespace {

constexpr absl::Duration kWarningInterval = absl::Minutes(1);
// A worker without a heartbeat for this fraction of its heartbeat timeout is slow: it should send
// four heartbeats in each timeout.
constexpr double kSlowFraction = 0.4;
// How long a mismatch is remembered for workers that start later.
constexpr absl::Duration kMismatchLifetime = absl::Milliseconds(1500);

std::string SecondsText(absl::Duration duration) {
  return absl::StrFormat("%.1f s", absl::ToDoubleSeconds(duration));
}

}  // namespace

Membership::Membership(int num_workers, std::vector<std::string> addresses)
    : num_workers_(num_workers),
      addresses_(std::move(addresses)),
      started_(MonotonicTime::Now()),
      members_answer_(absl::UnavailableError("not all workers have registered")),
      has_left_(num_workers) {}

absl::Status Membership::Admit(const WorkerProcess& process, const coordination::Member& member) {
  MutexLock lock(&mu_);
  const int worker = member.worker();
  // Workers that register after the mismatch's lifetime have been restarted.
  if (members_.empty() && MonotonicTime::Now() > mismatch_time_ + kMismatchLifetime) {
    mismatch_ = absl::OkStatus();
    know_mismatch_.clear();
  }
  MF_RETURN_IF_ERROR(mismatch_);
  // A restarted worker waits for the next cluster.
  if (complete_ && !left_.empty()) {
    return absl::UnavailableError(
        absl::StrCat("worker ", left_[0].first, " has left; waiting for the others to end"));
  }
  if (member.num_workers() != num_workers_) {
    return Differ(worker, "number of workers", absl::StrCat(num_workers_),
                  absl::StrCat(member.num_workers()));
  }
  if (worker < 0 || worker >= num_workers_) {
    return absl::InvalidArgumentError(
        absl::StrCat("worker ", worker, ": out of range; expected 0 to ", num_workers_ - 1));
  }
  const auto present = members_.find(worker);
  if (present != members_.end() && present->second.process != process.number) {
    const coordination::Member& other = present->second.member;
    return absl::AbortedError(absl::StrCat("worker ", worker, " has already registered, from ",
                                           other.host(), " (process ", other.pid(),
                                           "); expected one process for each worker"));
  }
  MF_RETURN_IF_ERROR(CheckSettings(member));
  MF_RETURN_IF_ERROR(CheckGpus(member));
  if (present != members_.end()) Remove(present);
  for (const std::string& uuid : member.gpu_uuids()) gpu_users_[uuid] = worker;
  members_.emplace(worker, Registered{.process = process.number, .member = member});
  if (static_cast<int>(members_.size()) < num_workers_) return absl::OkStatus();
  std::vector<coordination::Member> members;
  for (const auto& [number, registered] : members_) members.push_back(registered.member);
  members_answer_ = JoinMembers(members).SerializeAsString();
  complete_ = true;
  changed_.NotifyAll();
  return absl::OkStatus();
}

void Membership::Begin(int worker) {
  MutexLock lock(&mu_);
  const auto found = members_.find(worker);
  if (found == members_.end()) return;
  found->second.last_beat = found->second.last_progress = MonotonicTime::Now();
}

absl::Status Membership::Differ(int worker, absl::string_view what, absl::string_view own,
                                absl::string_view other) {
  return EndWith(absl::StrCat("workers differ; worker ",
                              members_.empty() ? 0 : members_.begin()->first, " has `", what, " = ",
                              own, "`, worker ", worker, " has `", what, " = ", other, "`"),
                 worker);
}

absl::Status Membership::EndWith(absl::string_view mismatch, int worker) {
  mismatch_time_ = MonotonicTime::Now();
  mismatch_ = WithFailure(absl::InvalidArgumentError(mismatch), {.worker = worker});
  return mismatch_;
}

absl::Status Membership::CheckSettings(const coordination::Member& member) {
  if (members_.empty()) return absl::OkStatus();
  const auto& first = members_.begin()->second.member.settings();
  for (int i = 0; i < std::max(first.size(), member.settings_size()); ++i) {
    const coordination::Setting own = i < first.size() ? first[i] : coordination::Setting();
    const coordination::Setting other =
        i < member.settings_size() ? member.settings(i) : coordination::Setting();
    if (own.name() != other.name()) {
      return Differ(member.worker(), "setting", own.name(), other.name());
    }
    if (own.value() != other.value()) {
      return Differ(member.worker(), own.name(), own.value(), other.value());
    }
  }
  return absl::OkStatus();
}

// Checks that no two ranks use the same GPU, because NCCL cannot connect them.
absl::Status Membership::CheckGpus(const coordination::Member& member) {
  const auto name_of = [](const coordination::Member& by, int device) {
    return absl::StrCat("worker ", by.worker(), " (",
                        device < by.devices_size() ? by.devices(device) : "GPU", ")");
  };
  std::map<absl::string_view, std::string> own;  // GPU UUID -> the user's name in errors
  for (int i = 0; i < member.gpu_uuids_size(); ++i) {
    const std::string& uuid = member.gpu_uuids(i);
    const auto [first, is_new] = own.emplace(uuid, name_of(member, i));
    std::vector<std::string> users = {name_of(member, i)};
    if (!is_new) users.insert(users.begin(), first->second);
    const auto user = gpu_users_.find(uuid);
    if (user != gpu_users_.end() && user->second != member.worker()) {
      const coordination::Member& by = members_.find(user->second)->second.member;
      const auto& uuids = by.gpu_uuids();
      const auto device = std::find(uuids.begin(), uuids.end(), uuid) - uuids.begin();
      users.insert(by.worker() < member.worker() ? users.begin() : users.end(),
                   name_of(by, static_cast<int>(device)));
    }
    if (users.size() == 1) continue;
    return EndWith(absl::StrCat("devices: ", users[0], " and ", users[1], " use the same GPU, ",
                                uuid, "; expected different GPUs (devices, CUDA_VISIBLE_DEVICES)"),
                   member.worker());
  }
  return absl::OkStatus();
}

void Membership::Remove(std::map<int, Registered>::iterator member) {
  for (const std::string& uuid : member->second.member.gpu_uuids()) gpu_users_.erase(uuid);
  stragglers_.Remove(member->first);
  members_.erase(member);
}

void Membership::Forget(const WorkerProcess& process, const absl::Status& why) {
  MutexLock lock(&mu_);
  const auto found = members_.find(process.worker);
  if (found != members_.end() && found->second.process == process.number) Remove(found);
  if (absl::IsDeadlineExceeded(why)) timeout_ = why;
  const bool exists = process.worker >= 0 && process.worker < num_workers_;
  if (!mismatch_.ok() && exists) know_mismatch_.insert(process.worker);
  changed_.NotifyAll();
}

absl::Status Membership::mismatch() const {
  MutexLock lock(&mu_);
  return mismatch_;
}

absl::Status Membership::timeout() const {
  MutexLock lock(&mu_);
  return timeout_;
}

void Membership::WaitUntilMismatchIsKnown() {
  MutexLock lock(&mu_);
  if (mismatch_.ok()) return;
  changed_.WaitUntil(lock, mismatch_time_ + kMismatchLifetime,
                     [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
                       return static_cast<int>(know_mismatch_.size()) == num_workers_;
                     });
}

absl::Status Membership::CheckMember(const WorkerProcess& process) const {
  MutexLock lock(&mu_);
  const auto found = members_.find(process.worker);
  if (found != members_.end() && found->second.process == process.number) return absl::OkStatus();
  for (const auto& [worker, why] : left_) {
    if (worker == process.worker) return why;
  }
  return WithFailure(
      absl::UnavailableError(absl::StrCat(
          "the coordination service has restarted and no longer knows worker ", process.worker)),
      {.worker = 0});
}

absl::Duration Membership::HeartbeatTimeout(int worker) const {
  MutexLock lock(&mu_);
  const auto found = members_.find(worker);
  return found == members_.end() ? absl::InfiniteDuration() : found->second.heartbeat_timeout();
}

Answer Membership::members() const {
  MutexLock lock(&mu_);
  return members_answer_;
}

std::string Membership::WaitingText(MonotonicTime now) const {
  MutexLock lock(&mu_);
  if (complete_) return "";
  std::vector<int> missing;
  for (int w = 0; w < num_workers_; ++w) {
    if (!members_.contains(w)) missing.push_back(w);
  }
  return absl::StrCat("waiting for workers: ", members_.size(), "/", num_workers_,
                      " joined; missing worker ", FirstOf(missing, addresses_), "; ",
                      absl::ToInt64Seconds(now - started_), " s");
}

bool Membership::Leave(int worker, const absl::Status& why) {
  MutexLock lock(&mu_);
  if (HasLeft(worker)) return false;
  left_.emplace_back(worker, why);
  has_left_[worker] = true;
  stragglers_.Remove(worker);
  changed_.NotifyAll();
  return true;
}

std::optional<Membership::Loss> Membership::Lose(const WorkerProcess& process) {
  MutexLock lock(&mu_);
  const auto found = members_.find(process.worker);
  if (found == members_.end() || found->second.process != process.number) return std::nullopt;
  const uint64_t step = found->second.heartbeat.step();
  return LoseBecause(process.worker,
                     absl::StrCat("its connection to the coordination service has ended",
                                  step > 0 ? absl::StrCat("; its last known step is ", step) : ""));
}

std::optional<Membership::Loss> Membership::LoseSilent(int worker, MonotonicTime now) {
  MutexLock lock(&mu_);
  const auto found = members_.find(worker);
  if (found == members_.end()) return std::nullopt;
  const Registered& member = found->second;
  return LoseBecause(worker, absl::StrCat("no heartbeat for ", SecondsText(now - member.last_beat),
                                          ", no progress since step ", member.heartbeat.step()));
}

void Membership::Beat(int worker, const coordination::Heartbeat& heartbeat) {
  MutexLock lock(&mu_);
  const auto found = members_.find(worker);
  if (found == members_.end()) return;
  Registered& member = found->second;
  member.last_beat = MonotonicTime::Now();
  const bool moved = member.position() != std::pair(heartbeat.runs(), heartbeat.collectives()) ||
                     heartbeat.running() != member.heartbeat.running();
  member.heartbeat = heartbeat;
  if (!HasLeft(worker)) stragglers_.Beat(worker, heartbeat, member.last_beat);
  if (!moved) return;
  member.last_progress = member.last_beat;
  member.stall_reported = false;
}

void Membership::ForgiveSilence(absl::Duration duration) {
  MutexLock lock(&mu_);
  for (auto& [worker, member] : members_) {
    member.last_beat += duration;
    member.last_progress += duration;
    member.last_wait += duration;
  }
}

std::vector<int> Membership::SilentWorkers(MonotonicTime now) const {
  MutexLock lock(&mu_);
  std::vector<int> silent;
  for (const auto& [worker, member] : members_) {
    if (now > member.last_beat + member.heartbeat_timeout() && !HasLeft(worker))
      silent.push_back(worker);
  }
  return silent;
}

std::string Membership::SlowWorkersText(MonotonicTime now) {
  MutexLock lock(&mu_);
  const Registered* slowest = nullptr;
  std::vector<int> slow;
  for (auto& [worker, member] : members_) {
    if (now - member.last_beat < kSlowFraction * member.heartbeat_timeout() ||
        now - member.last_warning < kWarningInterval || HasLeft(worker)) {
      continue;
    }
    member.last_warning = now;
    slow.push_back(worker);
    if (slowest == nullptr || member.last_beat < slowest->last_beat) slowest = &member;
  }
  if (slowest == nullptr) return "";
  std::erase(slow, slowest->member.worker());
  return absl::StrCat(
      NameOf(slowest->member), " is slow: no heartbeat for ", SecondsText(now - slowest->last_beat),
      ", at step ", slowest->heartbeat.step(), slow.empty() ? "" : "; also worker ", FirstOf(slow));
}

void Membership::SetWaiting(MonotonicTime now, const std::vector<bool>& waiting) {
  MutexLock lock(&mu_);
  for (auto& [worker, member] : members_) {
    member.is_waiting = waiting[worker];
    if (member.is_waiting) member.last_wait = now;
  }
}

bool Membership::IsLate(const Registered& member, MonotonicTime now) const {
  return !HasLeft(member.member.worker()) && !member.heartbeat.running() && !member.is_waiting &&
         now - member.busy_since() < member.prepare_timeout();
}

absl::Status Membership::FindStall(MonotonicTime now) {
  MutexLock lock(&mu_);
  if (std::any_of(members_.begin(), members_.end(),
                  [&](const auto& member)
                      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return IsLate(member.second, now); })) {
    last_late_ = now;
    return absl::OkStatus();
  }
  for (auto& [worker, member] : members_) {
    if (HasLeft(worker) || !member.heartbeat.running() || member.stall_reported ||
        now - std::max(member.last_progress, last_late_) < member.progress_timeout()) {
      continue;
    }
    member.stall_reported = true;
    return absl::DeadlineExceededError(
        absl::StrCat(NameOf(member.member), " has been in step ", member.heartbeat.step(), " for ",
                     SecondsText(now - member.last_progress), " without progress"));
  }
  return absl::OkStatus();
}

std::string Membership::LateWorkerText(MonotonicTime now) {
  MutexLock lock(&mu_);
  const bool any_waits = std::any_of(members_.begin(), members_.end(), [](const auto& member) {
    return member.second.is_waiting || member.second.heartbeat.running();
  });
  for (auto& [worker, member] : members_) {
    const absl::Duration late = now - member.busy_since();
    if (!any_waits || late < kWarningInterval || now - member.last_warning < kWarningInterval ||
        !IsLate(member, now)) {
      continue;
    }
    member.last_warning = now;
    return absl::StrCat(
        NameOf(member.member), " is late: it is alive, but has been outside a step for ",
        SecondsText(late), ", since step ", member.heartbeat.step(),
        "; the others wait for it for up to ", absl::FormatDuration(member.prepare_timeout()));
  }
  return "";
}

std::string Membership::StragglerText(MonotonicTime now) {
  MutexLock lock(&mu_);
  const std::optional<StragglerWatch::Straggler> straggler = stragglers_.Find(now);
  if (!straggler.has_value()) return "";
  const auto found = members_.find(straggler->worker);
  if (found == members_.end()) return "";
  return absl::StrCat(NameOf(found->second.member), " ", straggler->Text());
}

MonotonicTime Membership::HeardFromAllSince() const {
  MutexLock lock(&mu_);
  MonotonicTime since = MonotonicTime::InfiniteFuture();
  for (const auto& [worker, member] : members_) {
    if (!HasLeft(worker)) since = std::min(since, member.last_beat);
  }
  return since;
}

absl::Status Membership::BlameSlowest(const absl::Status& timeout) const {
  MutexLock lock(&mu_);
  const Registered *slowest = nullptr, *fastest = nullptr;
  for (const auto& [worker, member] : members_) {
    if (HasLeft(worker)) continue;
    if (slowest == nullptr || member.position() < slowest->position()) slowest = &member;
    if (fastest == nullptr || member.position() > fastest->position()) fastest = &member;
  }
  if (slowest == nullptr || slowest->position() == fastest->position()) {
    return WithCollectives(timeout, Collectives());
  }
  const auto place = [](const Registered& member) {
    const coordination::Heartbeat& at = member.heartbeat;
    return absl::StrCat("step ", at.step(), ", collective ", at.collectives(),
                        at.collective().empty() ? "" : absl::StrCat(" '", at.collective(), "'"));
  };
  std::vector<int> as_slow;
  for (const auto& [worker, member] : members_) {
    if (HasLeft(worker) || &member == slowest || member.position() != slowest->position()) continue;
    as_slow.push_back(worker);
  }
  const absl::Status blame = absl::DeadlineExceededError(absl::StrCat(
      NameOf(slowest->member), ": no progress since ", place(*slowest),
      as_slow.empty() ? ""
                      : absl::StrCat("; worker ", FirstOf(as_slow),
                                     as_slow.size() > 1 ? " are" : " is", " at the same position"),
      "; worker ", fastest->member.worker(), " has reached ", place(*fastest), "; ",
      timeout.message()));
  return WithCollectives(
      WithFailure(blame, {.worker = slowest->member.worker(),
                          .step = static_cast<int64_t>(slowest->heartbeat.step())}),
      Collectives());
}

CollectivesByWorker Membership::Collectives() const {
  CollectivesByWorker collectives;
  for (const auto& [worker, member] : members_) {
    collectives[worker] = member.heartbeat.collectives();
  }
  return collectives;
}

std::optional<Membership::Loss> Membership::LoseBecause(int worker, absl::string_view cause) {
  const auto found = members_.find(worker);
  if (found == members_.end() || HasLeft(worker)) return std::nullopt;
  absl::Status why = WithFailure(
      absl::UnavailableError(absl::StrCat(NameOf(found->second.member), " is lost: ", cause)),
      {.worker = worker});
  // Only the first loss records every worker's position, because thousands may be lost at once.
  if (left_.empty()) why = WithCollectives(why, Collectives());
  Remove(found);
  if (complete_) {
    left_.emplace_back(worker, why);
    has_left_[worker] = true;
  }
  changed_.NotifyAll();
  return Loss{why, complete_};
}

coordination::ClusterStatus Membership::Status(MonotonicTime now,
                                               std::vector<std::string> calls) const {
  using coordination::ClusterStatus;
  MutexLock lock(&mu_);
  ClusterStatus status;
  for (int w = 0; w < num_workers_; ++w) {
    ClusterStatus::Worker& worker = *status.add_workers();
    const auto found = members_.find(w);
    if (found == members_.end()) {
      if (static_cast<size_t>(w) < addresses_.size()) worker.set_detail(addresses_[w]);
      continue;
    }
    const Registered& registered = found->second;
    worker.set_host(registered.member.host());
    worker.set_pid(registered.member.pid());
    *worker.mutable_heartbeat() = registered.heartbeat;
    const bool has_begun = registered.last_beat != MonotonicTime::InfiniteFuture();
    if (has_begun) {
      worker.set_heartbeat_age_ms(absl::ToInt64Milliseconds(now - registered.last_beat));
      worker.set_since_progress_ms(absl::ToInt64Milliseconds(now - registered.last_progress));
    }
    worker.set_detail(has_begun ? std::move(calls[w]) : "register");
    worker.set_state(registered.heartbeat.running() ? ClusterStatus::IN_STEP
                     : !worker.detail().empty()     ? ClusterStatus::WAITING
                                                    : ClusterStatus::BETWEEN_STEPS);
  }
  for (const auto& [w, why] : left_) {
    status.mutable_workers(w)->set_state(ClusterStatus::LEFT);
    status.mutable_workers(w)->set_detail(
        absl::IsFailedPrecondition(why) ? "has finished" : std::string(why.message()));
  }
  return status;
}

std::vector<std::pair<int, absl::Status>> Membership::left() const {
  MutexLock lock(&mu_);
  return left_;
}

void Membership::CancelStart() {
  MutexLock lock(&mu_);
  start_is_cancelled_ = true;
  changed_.NotifyAll();
}

absl::Status Membership::WaitUntilOver(MonotonicTime start_deadline) {
  MutexLock lock(&mu_);
  if (!changed_.WaitUntil(lock, start_deadline, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
        return complete_ || start_is_cancelled_;
      })) {
    lock.Unlock();
    return absl::DeadlineExceededError(WaitingText(MonotonicTime::Now()));
  }
  if (!complete_) return absl::CancelledError("stopped before all workers had registered");
  const auto has_left = [this](const auto& member)
                            ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return HasLeft(member.first); };
  while (!std::all_of(members_.begin(), members_.end(), has_left)) changed_.Wait(lock);
  for (const auto& [worker, why] : left_) {
    if (absl::IsUnavailable(why)) return why;
  }
  return absl::OkStatus();
}

}  // namespace mirrorflow
