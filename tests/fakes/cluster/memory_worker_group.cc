// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/cluster/memory_worker_group.h"

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "distribute/cluster/coordination/answer.h"
#include "distribute/cluster/coordination/coordination_state.h"
#include "distribute/cluster/coordination/failure_listener.h"
#include "distribute/cluster/coordination/value_list.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"
#include "framework/core/status.h"
#include "framework/runtime/status_proto.h"

namespace mirrorflow {
namespace {

// Copies a status as a network does. Copies within a process share memory, and TSan does not see
// the reference count that the Abseil library maintains, so it would report races between workers.
absl::Status Received(const absl::Status& status) {
  return status.ok() ? status : StatusFromProto(StatusToProto(status));
}

class Member final : public MemoryWorkerGroup {
 public:
  Member(std::shared_ptr<CoordinationState> state, int worker)
      : state_(std::move(state)), worker_(worker), own_(std::make_shared<Own>()) {
    Listen();
  }
  ~Member() override {
    OnFailure(nullptr);
    state_->Cancel(worker_);
  }

  int worker() const override { return worker_; }
  int num_workers() const override { return state_->num_workers(); }

  absl::StatusOr<uint64_t> Join(MonotonicTime deadline) override {
    MF_ASSIGN_OR_RETURN(const std::string number, Call("join", deadline, [&](auto done) {
                          state_->Join(worker_, deadline, std::move(done));
                        }));
    uint64_t incarnation = 0;
    if (!absl::SimpleAtoi(number, &incarnation)) return absl::InternalError("bad incarnation");
    incarnation_ = incarnation;
    Listen();
    return incarnation;
  }

  absl::Status Put(absl::string_view key, std::string value, MonotonicTime deadline) override {
    return PutForReaders(key, /*readers=*/0, std::move(value), deadline);
  }
  absl::Status PutForReaders(absl::string_view key, int readers, std::string value,
                             MonotonicTime deadline) override {
    if (!own_->Reach(deadline)) return TimedOut(absl::StrCat("put '", key, "'"));
    return state_->Put(worker_, incarnation_, key, std::move(value), readers);
  }

  absl::StatusOr<std::string> Get(absl::string_view key, MonotonicTime deadline) override {
    return Call(absl::StrCat("get '", key, "'"), deadline, [&](auto done) {
      state_->Get(worker_, incarnation_, key, deadline, std::move(done));
    });
  }
  absl::StatusOr<std::string> Watch(absl::string_view key) override {
    const MonotonicTime never = MonotonicTime::InfiniteFuture();
    return Call(absl::StrCat("watch '", key, "'"), never, [&](auto done) {
      state_->Get(worker_, incarnation_, key, never, std::move(done), /*in_background=*/true);
    });
  }

  absl::StatusOr<std::vector<std::string>> AllGather(absl::string_view name, std::string value,
                                                     MonotonicTime deadline) override {
    MF_ASSIGN_OR_RETURN(const std::string joined,
                        Call(absl::StrCat("all-gather '", name, "'"), deadline, [&](auto done) {
                          state_->AllGather(worker_, incarnation_, name, std::move(value), deadline,
                                            std::move(done));
                        }));
    return SplitValues(joined, num_workers());
  }

  absl::Status ReportFailure(const absl::Status& cause, MonotonicTime deadline) override {
    if (!own_->Reach(deadline)) return cause;
    return state_->ReportFailure(incarnation_, cause);
  }

  void OnFailure(std::function<void(const absl::Status&)> call) override {
    own_->listener.Set(std::move(call));
  }

  void SetSilent(bool silent) override {
    MutexLock lock(&own_->mu);
    own_->silent = silent;
    own_->changed.NotifyAll();
  }

 private:
  // Outlives the Member while the CoordinationState still has to answer calls.
  struct Own {
    Mutex mu;
    CondVar changed;
    bool silent ABSL_GUARDED_BY(mu) = false;
    FailureListener listener;

    bool IsSilent() {
      MutexLock lock(&mu);
      return silent;
    }
    // Waits until `condition`, which is called with mu held, is true. Returns false if the deadline
    // passes first.
    bool Wait(MonotonicTime deadline, absl::FunctionRef<bool()> condition) {
      MutexLock lock(&mu);
      if (deadline == MonotonicTime::InfiniteFuture()) {
        changed.Wait(lock, condition);
        return true;
      }
      return changed.WaitUntil(lock, deadline, condition);
    }
    // Waits until this worker is not silent. Returns false if the deadline passes first.
    bool Reach(MonotonicTime deadline) {
      return Wait(deadline, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return !silent; });
    }
  };

  // Notifies the listener of a failure in the current incarnation.
  void Listen() {
    own_->listener.Reset();
    state_->WaitForFailure(worker_, incarnation_, [own = own_](const Answer& why) {
      if (!why.status().ok() && !own->IsSilent()) own->listener.Notify(Received(why.status()));
    });
  }

  absl::Status TimedOut(absl::string_view what) const {
    return absl::DeadlineExceededError(
        absl::StrCat("worker ", worker_, ": ", what, ": deadline exceeded"));
  }

  // Starts a call on the state and waits for its answer.
  absl::StatusOr<std::string> Call(absl::string_view what, MonotonicTime deadline,
                                   absl::FunctionRef<void(CoordinationState::Done)> start) {
    if (!own_->Reach(deadline)) return TimedOut(what);
    struct Reply {
      const std::shared_ptr<Own> own;
      bool there ABSL_GUARDED_BY(own->mu) = false;
      absl::StatusOr<std::string> result ABSL_GUARDED_BY(own->mu) = "";
    };
    const std::shared_ptr<Reply> reply(new Reply{.own = own_});
    start([reply](const Answer& answer) {
      MutexLock lock(&reply->own->mu);
      if (answer.status().ok()) {
        reply->result = answer.result();
      } else {
        reply->result = Received(answer.status());
      }
      reply->there = true;
      reply->own->changed.NotifyAll();
    });
    const auto there = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(reply->own->mu) { return reply->there; };
    if (!own_->Wait(deadline, there)) {
      state_->Expire(MonotonicTime::Now());
      // Another thread may be about to deliver the answer.
      own_->Wait(MonotonicTime::InfiniteFuture(), there);
    }
    if (!own_->Reach(deadline)) return TimedOut(what);
    MutexLock lock(&reply->own->mu);
    return std::move(reply->result);
  }

  const std::shared_ptr<CoordinationState> state_;
  const int worker_;
  const std::shared_ptr<Own> own_;
  std::atomic<uint64_t> incarnation_{0};
};

}  // namespace

std::vector<std::unique_ptr<MemoryWorkerGroup>> CreateMemoryWorkerGroups(int num_workers) {
  const auto state = std::make_shared<CoordinationState>(num_workers);
  std::vector<std::unique_ptr<MemoryWorkerGroup>> groups;
  for (int w = 0; w < num_workers; ++w) groups.push_back(std::make_unique<Member>(state, w));
  return groups;
}

}  // namespace mirrorflow
