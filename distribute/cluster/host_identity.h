// SPDX-License-Identifier: Apache-2.0
//
// Facts about this process and its host that workers compare.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_HOST_IDENTITY_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_HOST_IDENTITY_H_

#include <string>

#include "absl/status/statusor.h"

namespace mirrorflow {

std::string HostName();

// Returns a string that is equal for two processes only if they can be expected to share memory:
// they run under the same boot of the same kernel, as the same user, and in the same network
// namespace.
std::string HostIdentity();

// Returns the CPUs that this process is allowed to use, such as `0-3,8`.
std::string UsableCpuList();

// Returns the checksum and size of the program's executable, which identify the build.
absl::StatusOr<std::string> BuildIdentity();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_HOST_IDENTITY_H_
