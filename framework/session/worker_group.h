// SPDX-License-Identifier: Apache-2.0
//
// WorkerGroup: one worker's only door to the others. It carries what workers have to know of one
// another before and beside the steps (unique ids, addresses, hashes, errors), never tensors.
//
// Contract. Everything belongs to an incarnation: workers that are connected after a failure begin
// with an empty store. Waits end at their deadline, or with the failure that a worker has reported.
// Calls may come from any thread.
#ifndef MIRRORFLOW_FRAMEWORK_SESSION_WORKER_GROUP_H_
#define MIRRORFLOW_FRAMEWORK_SESSION_WORKER_GROUP_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace mirrorflow {

class WorkerGroup {
 public:
  virtual ~WorkerGroup() = default;

  virtual int worker() const = 0;  // this one
  virtual int num_workers() const = 0;

  // Waits until all workers have called it, and begins a new incarnation; its number, the same on
  // all workers and larger than those before.
  virtual absl::StatusOr<uint64_t> Join(absl::Time deadline) = 0;

  // A store of keys and values. Get waits for the key. A key is put once.
  virtual absl::Status Put(absl::string_view key, std::string value, absl::Time deadline) = 0;
  virtual absl::StatusOr<std::string> Get(absl::string_view key, absl::Time deadline) = 0;

  // Returns when all workers have called it with this name.
  virtual absl::Status Barrier(absl::string_view name, absl::Time deadline) = 0;

  // Tells all workers why this one cannot go on. The first report of an incarnation counts: it is
  // returned, `cause` itself if that is the first or none can be had by the deadline.
  virtual absl::Status ReportFailure(const absl::Status& cause, absl::Time deadline) = 0;
  // `call`, unless null, is called when another worker reports the first failure, from any thread;
  // at once if one of this incarnation is known.
  // When this returns no call of the function before is in progress.
  virtual void OnFailure(std::function<void(const absl::Status&)> call) = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_SESSION_WORKER_GROUP_H_
