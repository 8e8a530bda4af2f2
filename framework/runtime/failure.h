// SPDX-License-Identifier: Apache-2.0
//
// Failure: where a step first failed, as a payload of the status that explains why. It travels with
// the status to every rank, so finding the cause requires no parsing of error messages. Another
// payload marks numeric errors.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_FAILURE_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_FAILURE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace mirrorflow {

// Fields that are unknown or do not apply are -1.
struct Failure {
  int rank = -1;          // the rank that failed, or the first one that did not arrive in time
  int worker = -1;        // of that rank
  int64_t step = -1;      // of the session
  int sequence = -1;      // of the collective, in the step
  std::string name = {};  // of the node or collective

  // Formats the known fields: `rank 3, worker 1, step 17, collective 4, 'gradients/dense'`.
  std::string ToString() const;

  friend bool operator==(const Failure&, const Failure&) = default;
};

// Returns `status` with `failure` attached. Keeps the known fields of a Failure that `status`
// already carries; OK stays OK.
absl::Status WithFailure(absl::Status status, const Failure& failure);

// Returns the Failure that `status` carries, if any.
std::optional<Failure> FailureOf(const absl::Status& status);

// Returns whether the error means that a worker is lost, hangs or is unreachable. Such a cluster
// recovers when the worker or its replacement rejoins; errors in the program, its data or its
// numerics persist.
bool IsLostWorker(const absl::Status& status);

// Maps a worker to the number of collectives that it had started when a step failed, if known.
using CollectivesByWorker = std::map<int, uint64_t>;
// Returns `status` with these counts attached; OK stays OK.
absl::Status WithCollectives(absl::Status status, const CollectivesByWorker& collectives);
CollectivesByWorker CollectivesOf(const absl::Status& status);

// Marks a numeric error: a loss or a variable that is not finite, or replicas whose variables
// differ. Programs have a separate exit code for these errors, and the status code alone does not
// identify them: a damaged file is also DataLoss. The mark travels with the returned status to
// every rank; OK stays OK.
absl::Status NumericError(absl::Status status);
bool IsNumericError(const absl::Status& status);

// Marks an error that a worker reports to the other workers before it ends, such as a file error.
// IsLostWorker returns false for such an error, regardless of its code, because the other workers
// need not wait for that worker. The mark travels with the status; OK stays OK.
absl::Status FinalError(absl::Status status);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_FAILURE_H_
