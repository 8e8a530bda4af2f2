// SPDX-License-Identifier: Apache-2.0
//
// Failure: the place where a step first failed, as a payload of the status that says why. It
// travels with the status to every rank, so that no error text has to be parsed to find the cause.
// Another payload marks the errors that numbers have caused.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_FAILURE_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_FAILURE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace mirrorflow {

// Numbers that are unknown or do not apply are -1.
struct Failure {
  int rank = -1;          // at fault: where it happened, or the first that did not arrive in time
  int worker = -1;        // of that rank
  int64_t step = -1;      // of the session
  int sequence = -1;      // of the collective, in the step
  std::string name = {};  // of the node or collective

  // `rank 3, worker 1, step 17, collective 4, 'gradients/dense'`, without unknown fields.
  std::string ToString() const;

  friend bool operator==(const Failure&, const Failure&) = default;
};

// Returns `status` with `failure` attached. Known fields of a Failure that `status` already carries
// are kept; OK stays OK.
absl::Status WithFailure(absl::Status status, const Failure& failure);

// Returns the Failure that `status` carries, if any.
std::optional<Failure> FailureOf(const absl::Status& status);

// Whether a worker is lost or hangs, or this worker cannot reach it: its return, or that of another
// process in its place, repairs the cluster. Not so for errors of the program, its data or numbers.
bool IsLostWorker(const absl::Status& status);

// The number of collectives that each worker had started when a step failed, by worker, as far as
// it is known.
using CollectivesByWorker = std::map<int, uint64_t>;
// Returns `status` with these numbers attached; OK stays OK.
absl::Status WithCollectives(absl::Status status, const CollectivesByWorker& collectives);
CollectivesByWorker CollectivesOf(const absl::Status& status);

// Marks an error that numbers have caused: a loss or a variable that is not finite, or replicas
// whose variables differ. Programs end with their own exit code for these, and the status code does
// not tell: a damaged file is also DataLoss. The mark travels with the returned status to every
// rank; OK stays OK.
absl::Status NumericError(absl::Status status);
bool IsNumericError(const absl::Status& status);

// Marks an error that a worker passes to the others and then ends with, such as that of a file.
// Whatever its code, IsLostWorker is false: none of them has to wait for that worker. The mark
// travels with the status; OK stays OK.
absl::Status FinalError(absl::Status status);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_FAILURE_H_
