// SPDX-License-Identifier: Apache-2.0
//
// Facts about this process and its host that workers compare.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_HOST_IDENTITY_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_HOST_IDENTITY_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "distribute/cluster/connections/host_port.h"

namespace mirrorflow {

std::string HostName();

// Equal for two processes only if they can share memory: on the same boot of the same kernel, of
// the same user, in the same network namespace.
std::string HostIdentity();

// The CPUs that this process may use: `0-3,8`.
std::string UsableCpuList();

// The checksum and the size of the program's file, which differ between builds.
absl::StatusOr<std::string> BuildIdentity();

// The address of this host from which packets to `peer` leave: `10.0.0.2`. Resolves the peer's
// name. Sends nothing.
absl::StatusOr<std::string> AddressTowards(const HostPort& peer);

// The network device that packets to `peer` leave through: `lo`, `eth0`. Resolves the peer's name.
// Sends nothing.
absl::StatusOr<std::string> NetworkDeviceTowards(const HostPort& peer);

// Returns whether the network device, such as `eth0`, belongs to an RDMA device: InfiniBand, RoCE
// or iWARP. `sysfs`: where the kernel describes devices; tests pass another folder.
bool HasRdma(absl::string_view network_device, const std::string& sysfs = "/sys");

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_HOST_IDENTITY_H_
