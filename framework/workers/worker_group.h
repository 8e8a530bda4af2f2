// SPDX-License-Identifier: Apache-2.0
//
// WorkerGroup connects one worker to all others. It carries the control information that workers
// exchange outside of steps (unique ids, addresses, hashes, errors, traces), never tensors.
//
// All state belongs to an incarnation: workers that reconnect after a failure start with an empty
// store. A wait ends at its deadline, or when a worker reports a failure. Thread-safe.
#ifndef MIRRORFLOW_FRAMEWORK_WORKERS_WORKER_GROUP_H_
#define MIRRORFLOW_FRAMEWORK_WORKERS_WORKER_GROUP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/monotonic_time.h"
#include "framework/runtime/run_progress.h"

namespace mirrorflow {

class WorkerGroup {
 public:
  virtual ~WorkerGroup() = default;

  virtual int worker() const = 0;  // this worker
  virtual int num_workers() const = 0;

  // Blocks until all workers have called it, and begins a new incarnation. Returns its number,
  // which is equal on all workers and larger than all earlier ones.
  virtual absl::StatusOr<uint64_t> Join(MonotonicTime deadline) = 0;

  // Put and Get access a key-value store. Get waits until the key exists. Each key can be put only
  // once.
  virtual absl::Status Put(absl::string_view key, std::string value, MonotonicTime deadline) = 0;
  // Like Put, for a key that `readers` workers get once each. The last Get removes it, so the store
  // does not grow.
  virtual absl::Status PutForReaders(absl::string_view key, int readers, std::string value,
                                     MonotonicTime deadline) = 0;
  // Like PutForReaders, for a key that every other worker gets.
  absl::Status PutForOthers(absl::string_view key, std::string value, MonotonicTime deadline) {
    return PutForReaders(key, num_workers() - 1, std::move(value), deadline);
  }
  virtual absl::StatusOr<std::string> Get(absl::string_view key, MonotonicTime deadline) = 0;
  // Like Get, but without a deadline, for use on a background thread. All other calls that wait
  // mark this worker as waiting, so it is not considered late; Watch does not.
  virtual absl::StatusOr<std::string> Watch(absl::string_view key) = 0;

  // Returns the values of all workers, by worker, once each has called it with this name. After the
  // deadline, the error's Failure names the first missing worker.
  virtual absl::StatusOr<std::vector<std::string>> AllGather(absl::string_view name,
                                                             std::string value,
                                                             MonotonicTime deadline) = 0;
  // Returns once all workers have called it with this name.
  absl::Status Barrier(absl::string_view name, MonotonicTime deadline) {
    return AllGather(name, "", deadline).status();
  }

  // Reports to all workers why this one cannot continue. Only the first report of an incarnation
  // counts. Returns that report, or `cause` if it was first or no answer arrives by the deadline.
  virtual absl::Status ReportFailure(const absl::Status& cause, MonotonicTime deadline) = 0;
  // Sets the function to call, on any thread, when the coordination service asks all workers to
  // stop, with the number of the signal; null for none. Calls it immediately if that has already
  // happened. When OnStopRequest returns, no call of the previous function is in progress.
  virtual void OnStopRequest(std::function<void(int signal)> /*call*/) {}
  // Announces that this worker will leave for the reason `why` before its work is done, and
  // restart.
  virtual void SetStopped(std::string /*why*/) {}
  // Shares this worker's progress with the others periodically, so they can detect a worker that
  // makes no progress.
  virtual void ShareProgress(std::shared_ptr<const RunProgress> /*progress*/) {}
  // Sets the function to call, on any thread, when a worker, perhaps this one, reports the first
  // failure; null for none. Calls it immediately if this worker has already been told that the
  // incarnation has failed. When OnFailure returns, no call of the previous function is in
  // progress.
  virtual void OnFailure(std::function<void(const absl::Status&)> call) = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_WORKERS_WORKER_GROUP_H_
