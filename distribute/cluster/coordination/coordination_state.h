// SPDX-License-Identifier: Apache-2.0
//
// CoordinationState holds the state that the workers of a cluster share outside of steps, for every
// implementation of WorkerGroup: joining workers, a key-value store, barriers and the first
// failure.
//
// No call blocks. A call that has to wait keeps `done`, and calls it once its condition holds, the
// incarnation fails, or Expire() is called after its deadline. `done` is called exactly once, on
// any thread, with no locks held, possibly before the call returns. Thread-safe.
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
  static constexpr size_t kMaxKeysOfWorker = 16;          // additional keys per worker
  static constexpr size_t kMaxBytes = size_t{256} << 20;  // total over all values

  // Incarnations are numbered from `last_incarnation` + 1.
  explicit CoordinationState(int num_workers, uint64_t last_incarnation = 0)
      : num_workers_(num_workers), incarnation_(last_incarnation), joining_(num_workers) {}

  int num_workers() const { return num_workers_; }

  // Waits until all workers have joined, and answers with the number of the new incarnation. All
  // other calls name an incarnation, and fail with FailedPrecondition if it is not the current one.
  void Join(int worker, MonotonicTime deadline, Done done);

  // Stores a value. The key is removed after `gets` Gets; 0: never. Returns AlreadyExists if the
  // key is set, and ResourceExhausted if the store is full.
  absl::Status Put(int worker, uint64_t incarnation, absl::string_view key, std::string value,
                   int gets = 0);
  void Get(int worker, uint64_t incarnation, absl::string_view key, MonotonicTime deadline,
           Done done, bool in_background = false);
  // Waits until all workers have called it with this name, and answers with JoinValues() of all
  // values.
  void AllGather(int worker, uint64_t incarnation, absl::string_view name, std::string value,
                 MonotonicTime deadline, Done done);

  // Returns the first failure of the incarnation, which is `cause` if there was none before.
  absl::Status ReportFailure(uint64_t incarnation, const absl::Status& cause);
  // Whether the incarnation has failed, or ended.
  bool HasFailed(uint64_t incarnation) const;
  uint64_t incarnation() const;
  // Waits until a worker reports the first failure of the incarnation, and answers with it, or with
  // OK if the incarnation ends without a failure.
  void WaitForFailure(int worker, uint64_t incarnation, Done done);

  // Sets (*workers)[w] for each worker w whose program is blocked in a call, waiting for others.
  // Background calls (WaitForFailure, and Get with `in_background`) do not count.
  void AddWaiting(std::vector<bool>* workers) const;
  // Sets (*calls)[w] to the call that worker w is blocked in, as AddWaiting does: `get 'key'`.
  void AddWaitTexts(std::vector<std::string>* calls) const;
  // Ends the calls whose deadline is not after `now` with DeadlineExceeded. The error names all
  // missing workers; its Failure names the first.
  void Expire(MonotonicTime now);
  // Records that a worker leaves for good. Present and future calls that need it, because they wait
  // for all workers or for a key, fail with `why`. The incarnation has not failed: its results
  // remain valid.
  void Leave(int worker, const absl::Status& why);
  // Records a failure that no worker reported, such as the loss of one. Ends all calls with it.
  void Fail(const absl::Status& why);
  // Returns the failure of the incarnation, or why a worker left that another one's call needed.
  // OK if neither has happened: the workers that have left had finished.
  absl::Status failure() const;
  // Ends all calls of a worker, which no longer counts as joining. A WaitForFailure that arrives
  // later in this incarnation, because calls overtake one another, ends as well.
  void Cancel(int worker);

 private:
  enum class Kind { kJoin, kGet, kAllGather, kFailure };
  struct Wait {
    Kind kind;
    std::string name;  // the key, or the gather's name
    MonotonicTime deadline;
    Done done;
    bool in_background = false;
    MonotonicTime begun = MonotonicTime::Now();
  };
  struct Entry {
    Answer value;
    int gets;  // remaining Gets before removal; 0: it stays
    size_t bytes;
  };
  struct Gather {
    // By worker. Nullopt for a worker that gave up: the errors of others do not call it missing.
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
  // Ends the waits of a worker that satisfy `condition`. Those for a failure get `failure`, all
  // others `answer`.
  template <typename Condition>
  void EndIf(int worker, const Condition& condition, const Answer& answer, const Answer& failure,
             Answers* answers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Does the same for all workers.
  template <typename Condition>
  void EndAllIf(const Condition& condition, const Answer& answer, const Answer& failure,
                Answers* answers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Removes the value of a worker that has stopped waiting, so no all-gather uses it.
  void TakeBack(int worker, const Wait& wait) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SetJoining(int worker, bool joining) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the workers that have not yet made the join or all-gather that `wait` waits for.
  std::vector<int> MissingFrom(const Wait& wait) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns OK if no worker has left; otherwise the reason, which the calling operation fails with.
  absl::Status CheckAllPresent() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int num_workers_;
  mutable Mutex mu_;
  uint64_t incarnation_ ABSL_GUARDED_BY(mu_);
  std::vector<bool> joining_ ABSL_GUARDED_BY(mu_);  // by worker
  int num_joining_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<std::string, Entry, std::less<>> store_ ABSL_GUARDED_BY(mu_);
  size_t store_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  // Workers that wait for a key, once for each call.
  std::map<std::string, std::multiset<int>, std::less<>> readers_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Gather, std::less<>> gathers_ ABSL_GUARDED_BY(mu_);
  absl::Status failure_ ABSL_GUARDED_BY(mu_);     // the first of the incarnation
  absl::Status first_left_ ABSL_GUARDED_BY(mu_);  // why the first worker has left; OK if none has
  bool missed_ ABSL_GUARDED_BY(mu_) = false;      // a call has failed because of first_left_
  std::map<int, MonotonicTime> gave_up_
      ABSL_GUARDED_BY(mu_);                       // by worker: when its last Join expired
  std::set<int> cancelled_ ABSL_GUARDED_BY(mu_);  // the workers cancelled in this incarnation
  // By worker; holds only workers that are waiting.
  std::map<int, std::list<Wait>> waits_ ABSL_GUARDED_BY(mu_);
  int num_blocked_ ABSL_GUARDED_BY(mu_) = 0;  // waits for anything but a failure
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_COORDINATION_STATE_H_
