// SPDX-License-Identifier: Apache-2.0
//
// Facts about this process and its host that workers compare.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_HOST_IDENTITY_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_HOST_IDENTITY_H_

#include <string>

#include "absl/status/statusor.h"

namespace mirrorflow {

std::string HostName();

// Equal for two processes only if they can share memory: on the same boot of the same kernel, of
// the same user, in the same network namespace.
std::string HostIdentity();

// The CPUs that this process may use: `0-3,8`.
std::string UsableCpuList();

// The checksum and the size of the program's file, which differ between builds.
absl::StatusOr<std::string> BuildIdentity();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_HOST_IDENTITY_H_
