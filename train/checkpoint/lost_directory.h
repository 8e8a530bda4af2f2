// SPDX-License-Identifier: Apache-2.0
//
// Marks the error of a process whose directory of checkpoints has another owner now. The status
// code does not tell: a stale file handle of NFS (ESTALE) is also Aborted, and the next save may
// succeed.
#ifndef MIRRORFLOW_TRAIN_CHECKPOINT_LOST_DIRECTORY_H_
#define MIRRORFLOW_TRAIN_CHECKPOINT_LOST_DIRECTORY_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace mirrorflow {

// Returns Aborted with the mark, which travels with it to every worker.
absl::Status LostDirectoryError(absl::string_view message);

bool IsLostDirectory(const absl::Status& status);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_CHECKPOINT_LOST_DIRECTORY_H_
