// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/memory_worker_group.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "framework/runtime/failure.h"

namespace mirrorflow {
namespace {

// The failure callback of a worker.
struct Listener {
  std::mutex mu;  // held during the call
  std::function<void(const absl::Status&)> call;
};

// State that the workers share; guarded by `mu`.
struct Shared {
  explicit Shared(int num_workers) : silent(num_workers), listeners(num_workers) {}

  std::mutex mu;
  std::condition_variable changed;
  std::vector<char> silent;
  uint64_t incarnation = 0;
  std::set<int> joining;
  std::map<std::string, std::string, std::less<>> store;
  std::map<std::string, std::set<int>, std::less<>> barriers;
  absl::Status failure;             // the first of the incarnation
  std::vector<Listener> listeners;  // by worker; not guarded by `mu`
};

class Member final : public MemoryWorkerGroup {
 public:
  Member(std::shared_ptr<Shared> shared, int worker)
      : shared_(std::move(shared)), worker_(worker) {}
  ~Member() override { OnFailure(nullptr); }

  int worker() const override { return worker_; }
  int num_workers() const override { return static_cast<int>(shared_->silent.size()); }

  absl::StatusOr<uint64_t> Join(absl::Time deadline) override {
    std::unique_lock<std::mutex> lock(shared_->mu);
    const uint64_t before = shared_->incarnation;
    const auto come = [&] {
      if (IsSilent()) return false;
      if (shared_->incarnation > before) return true;  // does not count for the next incarnation
      shared_->joining.insert(worker_);
      if (static_cast<int>(shared_->joining.size()) < num_workers()) return false;
      ++shared_->incarnation;
      shared_->joining.clear();
      shared_->store.clear();
      shared_->barriers.clear();
      shared_->failure = absl::OkStatus();
      shared_->changed.notify_all();
      return true;
    };
    if (Wait(lock, deadline, come)) return shared_->incarnation;
    const std::vector<int> missing = MissingFrom(shared_->joining);
    shared_->joining.erase(worker_);
    return TimedOut("join", missing);
  }

  absl::Status Put(absl::string_view key, std::string value, absl::Time deadline) override {
    std::unique_lock<std::mutex> lock(shared_->mu);
    MF_RETURN_IF_ERROR(Reach(lock, deadline, absl::StrCat("put '", key, "'")));
    if (!shared_->store.emplace(std::string(key), std::move(value)).second) {
      return absl::AlreadyExistsError(
          absl::StrCat("worker ", worker_, ": key '", key, "' is already set"));
    }
    shared_->changed.notify_all();
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Get(absl::string_view key, absl::Time deadline) override {
    std::unique_lock<std::mutex> lock(shared_->mu);
    const auto there = [&] {
      return !IsSilent() && (!shared_->failure.ok() || shared_->store.contains(key));
    };
    if (!Wait(lock, deadline, there)) return TimedOut(absl::StrCat("get '", key, "'"), {});
    MF_RETURN_IF_ERROR(shared_->failure);
    return shared_->store.find(key)->second;
  }

  absl::Status Barrier(absl::string_view name, absl::Time deadline) override {
    std::unique_lock<std::mutex> lock(shared_->mu);
    const auto all_here = [&] {
      if (IsSilent()) return false;
      std::set<int>& here = shared_->barriers[std::string(name)];
      if (here.insert(worker_).second) shared_->changed.notify_all();
      return !shared_->failure.ok() || static_cast<int>(here.size()) == num_workers();
    };
    if (Wait(lock, deadline, all_here)) return shared_->failure;
    return TimedOut(absl::StrCat("barrier '", name, "'"),
                    MissingFrom(shared_->barriers[std::string(name)]));
  }

  absl::Status ReportFailure(const absl::Status& cause, absl::Time deadline) override {
    {
      std::unique_lock<std::mutex> lock(shared_->mu);
      if (!Wait(lock, deadline, [&] { return !IsSilent(); })) return cause;
      if (!shared_->failure.ok()) return shared_->failure;
      shared_->failure = cause;
      shared_->changed.notify_all();
    }
    for (int w = 0; w < num_workers(); ++w) {
      Listener& listener = shared_->listeners[w];
      std::lock_guard<std::mutex> lock(listener.mu);
      if (w != worker_ && listener.call && Hears(w)) listener.call(cause);
    }
    return cause;
  }

  void OnFailure(std::function<void(const absl::Status&)> call) override {
    Listener& listener = shared_->listeners[worker_];
    std::lock_guard<std::mutex> lock(listener.mu);
    listener.call = std::move(call);
    const absl::Status known = KnownFailure();
    if (listener.call && !known.ok()) listener.call(known);
  }

  void SetSilent(bool silent) override {
    std::lock_guard<std::mutex> lock(shared_->mu);
    shared_->silent[worker_] = silent;
    shared_->changed.notify_all();
  }

 private:
  bool IsSilent() const { return shared_->silent[worker_] != 0; }
  absl::Status KnownFailure() const {
    std::lock_guard<std::mutex> lock(shared_->mu);
    return IsSilent() ? absl::OkStatus() : shared_->failure;
  }
  bool Hears(int worker) const {
    std::lock_guard<std::mutex> lock(shared_->mu);
    return shared_->silent[worker] == 0;
  }

  template <typename Condition>
  bool Wait(std::unique_lock<std::mutex>& lock, absl::Time deadline, const Condition& condition) {
    if (deadline == absl::InfiniteFuture()) {
      shared_->changed.wait(lock, condition);
      return true;
    }
    return shared_->changed.wait_until(lock, absl::ToChronoTime(deadline), condition);
  }

  // Waits until this worker is not silent. Returns the failure of the incarnation, if any.
  absl::Status Reach(std::unique_lock<std::mutex>& lock, absl::Time deadline,
                     const std::string& what) {
    if (!Wait(lock, deadline, [&] { return !IsSilent(); })) return TimedOut(what, {});
    return shared_->failure;
  }

  std::vector<int> MissingFrom(const std::set<int>& here) const {
    std::vector<int> missing;
    for (int w = 0; w < num_workers(); ++w) {
      if (!here.contains(w)) missing.push_back(w);
    }
    return missing;
  }

  absl::Status TimedOut(const std::string& what, const std::vector<int>& missing) const {
    const absl::Status status = absl::DeadlineExceededError(absl::StrCat(
        "worker ", worker_, ": ", what, ": deadline exceeded",
        missing.empty() ? "" : absl::StrCat("; missing worker ", absl::StrJoin(missing, ", "))));
    return missing.empty() ? status : WithFailure(status, {.worker = missing[0]});
  }

  const std::shared_ptr<Shared> shared_;
  const int worker_;
};

}  // namespace

std::vector<std::unique_ptr<MemoryWorkerGroup>> CreateMemoryWorkerGroups(int num_workers) {
  const auto shared = std::make_shared<Shared>(num_workers);
  std::vector<std::unique_ptr<MemoryWorkerGroup>> groups;
  for (int w = 0; w < num_workers; ++w) groups.push_back(std::make_unique<Member>(shared, w));
  return groups;
}

}  // namespace mirrorflow
