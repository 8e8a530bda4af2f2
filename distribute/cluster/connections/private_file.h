// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_PRIVATE_FILE_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_PRIVATE_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mirrorflow {

// Returns the contents of a file that holds a secret; read all such files with it. Returns
// InvalidArgument unless the file is a regular file owned by this user that no other user can
// access, and has at most `max_bytes` bytes. If it cannot be read, returns the system's error
// (NotFound, …). `what` names the file in messages: "secret file".
absl::StatusOr<std::string> ReadPrivateFile(const std::string& path, absl::string_view what,
                                            size_t max_bytes);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_PRIVATE_FILE_H_
