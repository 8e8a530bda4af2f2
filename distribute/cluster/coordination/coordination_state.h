// SPDX-License-Identifier: Apache-2.0
//
// CoordinationState: the state that the workers of a cluster share outside of steps, for every
// implementation of WorkerGroup: joining workers, a key-value store, barriers and the first
// failure.
//
// No call blocks. A call that has to wait keeps `done`, and calls it once its condition holds, the
// incarnation fails, or Expire() is called after its deadline. `done` is called exactly once, by
// any thread, without locks; it may be called before the call returns. Thread-safe.
//
// Thousands of workers make the same call at about the same time, so the cost of a call must not
// depend on how many are waiting. The exception is the last call, which answers all of them.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_COORDINATION_STATE_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_COORDINATION_STATE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "distribute/cluster/coordination/answer.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"

namespace mirrorflow {

class CoordinationState {
 public:
  using Done = std::function<void(const Answer&)>;

  static constexpr size_t kMaxKeys = 10'000;
  static constexpr size_t kMaxKeysOfWorker = 16;          // in addition, for each worker
  static constexpr size_t kMaxBytes = size_t{256} << 20;  // of all values

  // Incarnations are numbered from `last_incarnation` + 1.
  explicit CoordinationState(int num_workers, uint64_t last_incarnation = 0)
      : num_workers_(num_workers), incarnation_(last_incarnation), joining_(num_workers) {}

  int num_workers() const { return num_workers_; }

  // Waits until all workers have joined; the result is the number of the new incarnation. All other
  // calls name an incarnation, and fail with FailedPrecondition if it is not the current one.
  void Join(int worker, MonotonicTime deadline, Done done);

  // AlreadyExists for a key that is set, ResourceExhausted if the store is full. The key is removed
  // after so many Gets; 0: never.
  absl::Status Put(int worker, uint64_t incarnation, absl::string_view key, std::string value,
                   int gets = 0);
  void Get(int worker, uint64_t incarnation, absl::string_view key, MonotonicTime deadline,
           Done done, bool in_background = false);
  // Waits until all workers have called it with this name; the result is JoinValues() of theirs.
  void AllGather(int worker, uint64_t incarnation, absl::string_view name, std::string value,
                 MonotonicTime deadline, Done done);

  // Returns the first failure of the incarnation, which is `cause` if there was none before.
  absl::Status ReportFailure(uint64_t incarnation, const absl::Status& cause);
  // Whether the incarnation has failed, or ended.
  bool HasFailed(uint64_t incarnation) const;
  uint64_t incarnation() const;
  // Waits until a worker reports the first failure of the incarnation, which is the result. OK if
  // the incarnation ends without one.
  void WaitForFailure(int worker, uint64_t incarnation, Done done);

  // Sets (*workers)[w] for each worker w whose program is blocked in a call, waiting for others.
  // Background calls (WaitForFailure, and Get with `in_background`) do not count.
  void AddWaiting(std::vector<bool>* workers) const;
  // Sets (*calls)[w] to the call that worker w is blocked in, as AddWaiting does: `get 'key'`.
  void AddWaitTexts(std::vector<std::string>* calls) const;
  // Ends the calls whose deadline is not after `now` with DeadlineExceeded. The error names the
  // missing workers, the first of them as its Failure.
  void Expire(MonotonicTime now);
  // A worker leaves for good. Calls that need it, now or later, fail with `why`: those that wait
  // for all workers or for a key. The incarnation has not failed: what has been computed is valid.
  void Leave(int worker, const absl::Status& why);
  // Records a failure that no worker reported, such as the loss of one. Ends all calls with it.
  void Fail(const absl::Status& why);
  // The failure of the incarnation, or why a worker has left that a call of another one needed. OK
  // if there is neither: the workers that have left were done.
  absl::Status failure() const;
  // Ends all calls of a worker, which no longer counts as joining. A WaitForFailure that arrives
  // later in this incarnation, because calls overtake one another, ends as well.
  void Cancel(int worker);

 private:
  enum class Kind { kJoin, kGet, kAllGather, kFailure };
  struct Wait {
    Kind kind;
    std::string name;  // of the key or gather
    MonotonicTime deadline;
    Done done;
    bool in_background = false;
    MonotonicTime begun = MonotonicTime::Now();
  };
  struct Entry {
    Answer value;
    int gets;  // until it is removed; 0: it stays
    size_t bytes;
  };
  struct Gather {
    // By worker; nullopt for a worker that gave up: others' errors do not call it missing.
    std::map<int, std::optional<std::string>> values;
    int num_present = 0;
  };
  // The answers that a change of the state gives. They are delivered without the lock.
  class Answers;

  static std::string TextOf(const Wait& wait);
  void CountGets(std::map<std::string, Entry, std::less<>>::iterator entry, int count)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckIncarnation(uint64_t incarnation) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Begin(int worker, Wait wait) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void End(int worker, std::list<Wait>::iterator wait, const Answer& answer, Answers* answers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Ends the waits of a worker that satisfy `condition`. Those for a failure get `failure`, all
  // others `answer`.
  template <typename Condition>
  void EndIf(int worker, const Condition& condition, const Answer& answer, const Answer& failure,
             Answers* answers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The same for all workers.
  template <typename Condition>
  void EndAllIf(const Condition& condition, const Answer& answer, const Answer& failure,
                Answers* answers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Removes the value of a worker that has stopped waiting, so that no all-gather uses it.
  void TakeBack(int worker, const Wait& wait) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SetJoining(int worker, bool joining) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The workers that have not made the call, a join or an all-gather, that `wait` waits for.
  std::vector<int> MissingFrom(const Wait& wait) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // OK if no worker has left. Otherwise a call fails because of that.
  absl::Status CheckAllPresent() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int num_workers_;
  mutable Mutex mu_;
  uint64_t incarnation_ ABSL_GUARDED_BY(mu_);
  std::vector<bool> joining_ ABSL_GUARDED_BY(mu_);  // by worker
  int num_joining_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<std::string, Entry, std::less<>> store_ ABSL_GUARDED_BY(mu_);
  size_t store_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  // The workers that wait for a key, once for each call.
  std::map<std::string, std::multiset<int>, std::less<>> readers_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Gather, std::less<>> gathers_ ABSL_GUARDED_BY(mu_);
  absl::Status failure_ ABSL_GUARDED_BY(mu_);     // the first of the incarnation
  absl::Status first_left_ ABSL_GUARDED_BY(mu_);  // why the first worker has left; OK if none has
  bool missed_ ABSL_GUARDED_BY(mu_) = false;      // a call has failed because of first_left_
  std::map<int, MonotonicTime> gave_up_
      ABSL_GUARDED_BY(mu_);                       // by worker: when its last Join expired
  std::set<int> cancelled_ ABSL_GUARDED_BY(mu_);  // the workers cancelled in this incarnation
  // By worker. Has only workers that are waiting.
  std::map<int, std::list<Wait>> waits_ ABSL_GUARDED_BY(mu_);
  int num_blocked_ ABSL_GUARDED_BY(mu_) = 0;  // waits for anything but a failure
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_COORDINATION_STATE_H_
