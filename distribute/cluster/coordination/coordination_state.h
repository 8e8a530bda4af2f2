// SPDX-License-Identifier: Apache-2.0
//
// CoordinationState holds the state that a cluster's workers share outside of steps, for every
// implementation of WorkerGroup: which workers are joining, a key-value store, all-gathers and the
// first failure.
//
// No call blocks. A call that has to wait keeps `done` until its condition is met, the incarnation
// fails, or Expire() is called after its deadline. `done` is called exactly once, on any thread,
// with no locks held, possibly before the call returns. Thread-safe.
//
// Thousands of workers make the same call at about the same time, so the cost of a call must not
// depend on how many workers are waiting. The exception is the last call, which answers all of
// them.
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
  static constexpr size_t kMaxKeysOfWorker = 16;          // added to the limit for each worker
  static constexpr size_t kMaxBytes = size_t{256} << 20;  // of all values together

  // Incarnations are numbered from `last_incarnation` + 1.
  explicit CoordinationState(int num_workers, uint64_t last_incarnation = 0)
      : num_workers_(num_workers), incarnation_(last_incarnation), joining_(num_workers) {}

  int num_workers() const { return num_workers_; }

  // Waits until all workers have joined, and answers with the new incarnation's number. All other
  // calls name an incarnation, and fail with FailedPrecondition if that is not the current one.
  void Join(int worker, MonotonicTime deadline, Done done);

  // Stores a value. Removes the key after `gets` Gets, or never if `gets` is 0. Returns
  // AlreadyExists if the key is set, and ResourceExhausted if the store is full.
  absl::Status Put(int worker, uint64_t incarnation, absl::string_view key, std::string value,
                   int gets = 0);
  // Waits until the key is set, and answers with its value.
  void Get(int worker, uint64_t incarnation, absl::string_view key, MonotonicTime deadline,
           Done done, bool in_background = false);
  // Waits until all workers have called this with the same name, and answers with JoinValues() of
  // their values.
  void AllGather(int worker, uint64_t incarnation, absl::string_view name, std::string value,
                 MonotonicTime deadline, Done done);

  // Records `cause` unless the incarnation has already failed. Returns its first failure.
  absl::Status ReportFailure(uint64_t incarnation, const absl::Status& cause);
  // Returns whether the incarnation has failed or ended.
  bool HasFailed(uint64_t incarnation) const;
  uint64_t incarnation() const;
  // Waits until the incarnation fails, and answers with its first failure, or with OK if the
  // incarnation ends without a failure.
  void WaitForFailure(int worker, uint64_t incarnation, Done done);

  // Sets (*workers)[w] for each worker w whose program is blocked in a call that waits for other
  // workers. Background calls (WaitForFailure, and Get with `in_background`) do not count.
  void AddWaiting(std::vector<bool>* workers) const;
  // Like AddWaiting, but sets (*calls)[w] to the call that worker w is blocked in: `get 'key'`.
  void AddWaitTexts(std::vector<std::string>* calls) const;
  // Ends calls whose deadline is not after `now` with DeadlineExceeded. The error names the missing
  // workers, and its Failure names the first.
  void Expire(MonotonicTime now);
  // Records that a worker leaves for good. Pending and future calls that wait for all workers or
  // for a key fail with `why`. The incarnation does not fail: its results remain valid.
  void Leave(int worker, const absl::Status& why);
  // Records a failure that no worker reported, such as the loss of a worker, and ends all calls
  // with it.
  void Fail(const absl::Status& why);
  // Returns the incarnation's failure or, if a call has failed because a worker had left, why that
  // worker left. Otherwise returns OK: all workers that have left had finished.
  absl::Status failure() const;
  // Ends all of a worker's calls, including a Join. Also ends a WaitForFailure that arrives later
  // in this incarnation, because calls can overtake one another.
  void Cancel(int worker);

 private:
  enum class Kind { kJoin, kGet, kAllGather, kFailure };
  struct Wait {
    Kind kind;
    std::string name;  // the key, or the all-gather's name
    MonotonicTime deadline;
    Done done;
    bool in_background = false;
    MonotonicTime begun = MonotonicTime::Now();
  };
  struct Entry {
    Answer value;
    int gets;  // remaining Gets before the key is removed; 0 if it is never removed
    size_t bytes;
  };
  struct Gather {
    // By worker. Nullopt for a worker that gave up, so other workers' errors do not list it as
    // missing.
    std::map<int, std::optional<std::string>> values;
    int num_present = 0;
  };
  // Answers that a state change produces. They are delivered after the lock is released.
  class Answers;

  static std::string TextOf(const Wait& wait);
  void CountGets(std::map<std::string, Entry, std::less<>>::iterator entry, int count)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckIncarnation(uint64_t incarnation) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Begin(int worker, Wait wait) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void End(int worker, std::list<Wait>::iterator wait, const Answer& answer, Answers* answers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Ends the worker's waits that satisfy `condition`. Waits of kind kFailure are answered with
  // `failure`, all others with `answer`.
  template <typename Condition>
  void EndIf(int worker, const Condition& condition, const Answer& answer, const Answer& failure,
             Answers* answers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Like EndIf, for all workers.
  template <typename Condition>
  void EndAllIf(const Condition& condition, const Answer& answer, const Answer& failure,
                Answers* answers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Removes the value that a worker contributed to the all-gather `wait`, because it has stopped
  // waiting.
  void TakeBack(int worker, const Wait& wait) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SetJoining(int worker, bool joining) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the workers that `wait`, a join or an all-gather, is still waiting for.
  std::vector<int> MissingFrom(const Wait& wait) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns OK if no worker has left. Otherwise returns why one left, and the caller must fail with
  // this error.
  absl::Status CheckNoneLeft() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int num_workers_;
  mutable Mutex mu_;
  uint64_t incarnation_ ABSL_GUARDED_BY(mu_);
  std::vector<bool> joining_ ABSL_GUARDED_BY(mu_);  // by worker
  int num_joining_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<std::string, Entry, std::less<>> store_ ABSL_GUARDED_BY(mu_);
  size_t store_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  // The workers that are waiting for each key. A worker appears once for each of its calls.
  std::map<std::string, std::multiset<int>, std::less<>> readers_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Gather, std::less<>> gathers_ ABSL_GUARDED_BY(mu_);
  absl::Status failure_ ABSL_GUARDED_BY(mu_);     // the incarnation's first failure
  absl::Status first_left_ ABSL_GUARDED_BY(mu_);  // why the first worker left; OK if none has left
  bool missed_ ABSL_GUARDED_BY(mu_) = false;      // whether a call has failed with first_left_
  std::map<int, MonotonicTime> gave_up_
      ABSL_GUARDED_BY(mu_);                       // by worker: when its last Join expired
  std::set<int> cancelled_ ABSL_GUARDED_BY(mu_);  // the workers cancelled in this incarnation
  // By worker; holds only workers that are waiting.
  std::map<int, std::list<Wait>> waits_ ABSL_GUARDED_BY(mu_);
  int num_blocked_ ABSL_GUARDED_BY(mu_) = 0;  // waits of all kinds except kFailure
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_COORDINATION_STATE_H_
