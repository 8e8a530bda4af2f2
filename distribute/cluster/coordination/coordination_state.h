// SPDX-License-Identifier: Apache-2.0
//
// CoordinationState: the state that the workers of a cluster share outside of steps, for every
// implementation of WorkerGroup: joining workers, a key-value store, barriers and the first
// failure.
//
// No call blocks. A call that has to wait keeps `done`, and calls it once its condition holds, the
// incarnation fails, or Expire() is called after its deadline. `done` is called exactly once, by
// any thread, without locks; it may be called before the call returns. Thread-safe.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_COORDINATION_STATE_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_COORDINATION_STATE_H_

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"

namespace mirrorflow {

class CoordinationState {
 public:
  using Done = std::function<void(absl::StatusOr<std::string>)>;

  static constexpr size_t kMaxKeys = 10'000;
  static constexpr size_t kMaxBytes = size_t{256} << 20;  // of all values

  // Incarnations are numbered from `last_incarnation` + 1.
  explicit CoordinationState(int num_workers, uint64_t last_incarnation = 0)
      : num_workers_(num_workers), incarnation_(last_incarnation) {}

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

  // Adds the workers whose program is blocked here, waiting for others. Background calls, which are
  // WaitForFailure and Get with `in_background`, do not count.
  void AddWaiting(std::set<int>* workers) const;
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
    int worker;
    std::string name;  // of the key or gather
    MonotonicTime deadline;
    Done done;
    bool in_background = false;
    MonotonicTime begun = MonotonicTime::Now();
  };
  struct Entry {
    std::string value;
    int gets;  // until it is removed; 0: it stays
  };
  // The answers that a change of the state gives. They are delivered without the lock.
  class Answers;

  void CountGet(std::map<std::string, Entry, std::less<>>::iterator entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckIncarnation(uint64_t incarnation) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Withdraws the value of a worker that no longer waits, so that no all-gather completes with it.
  void TakeBack(const Wait& wait) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void End(std::list<Wait>::iterator wait, absl::StatusOr<std::string> result, Answers* answers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Ends all waits that fulfil `condition`. Those for a failure get `failure`, all others `result`.
  template <typename Condition>
  void EndIf(const Condition& condition, const absl::StatusOr<std::string>& result,
             const absl::StatusOr<std::string>& failure, Answers* answers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  template <typename Present>  // has a method contains(worker)
  std::vector<int> MissingFrom(const Present& present) const;
  absl::Status TimedOut(const Wait& wait) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // OK if no worker has left. Otherwise a call fails because of that.
  absl::Status CheckAllPresent() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int num_workers_;
  mutable Mutex mu_;
  uint64_t incarnation_ ABSL_GUARDED_BY(mu_);
  std::set<int> joining_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Entry, std::less<>> store_ ABSL_GUARDED_BY(mu_);
  size_t store_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  // By name and worker; nullopt for a worker that gave up: others' errors do not call it missing.
  std::map<std::string, std::map<int, std::optional<std::string>>, std::less<>> gathered_
      ABSL_GUARDED_BY(mu_);
  absl::Status failure_ ABSL_GUARDED_BY(mu_);     // the first of the incarnation
  absl::Status first_left_ ABSL_GUARDED_BY(mu_);  // why the first worker has left; OK if none has
  bool missed_ ABSL_GUARDED_BY(mu_) = false;      // a call has failed because of first_left_
  std::map<int, MonotonicTime> gave_up_
      ABSL_GUARDED_BY(mu_);  // by worker: when its last Join expired
  std::map<int, uint64_t> cancelled_
      ABSL_GUARDED_BY(mu_);  // by worker: the incarnation of the last Cancel()
  std::list<Wait> waits_ ABSL_GUARDED_BY(mu_);
};

// Several values as one, and back. Internal if `joined` does not hold `count` values.
std::string JoinValues(absl::Span<const std::string> values);
absl::StatusOr<std::vector<std::string>> SplitValues(absl::string_view joined, int count);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_COORDINATION_STATE_H_
