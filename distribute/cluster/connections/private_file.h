// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_PRIVATE_FILE_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_PRIVATE_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mirrorflow {

// Returns the contents of a file that holds a secret. All such files must be read with this
// function. Returns InvalidArgument unless it is a regular file of at most `max_bytes` bytes that
// this user owns and no other user can access. Returns the system's error (NotFound, …) if the file
// cannot be read. `what` describes the file in messages, such as "secret file".
absl::StatusOr<std::string> ReadPrivateFile(const std::string& path, absl::string_view what,
                                            size_t max_bytes);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_PRIVATE_FILE_H_
