// SPDX-License-Identifier: Apache-2.0
//
// Marks the errors that numbers have caused: a loss or a variable that is not finite, or replicas
// whose variables differ. Programs end with their own exit code for these, and the status code does
// not tell: a damaged file is also DataLoss.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_NUMERIC_ERROR_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_NUMERIC_ERROR_H_

#include "absl/status/status.h"

namespace mirrorflow {

// Returns `status` with the mark, which travels with it to every rank; OK stays OK.
absl::Status NumericError(absl::Status status);

bool IsNumericError(const absl::Status& status);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_NUMERIC_ERROR_H_
