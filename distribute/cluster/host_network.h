// SPDX-License-Identifier: Apache-2.0
//
// The routes and network devices of this host.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_HOST_NETWORK_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_HOST_NETWORK_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "distribute/cluster/connections/host_port.h"

namespace mirrorflow {

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

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_HOST_NETWORK_H_
