// SPDX-License-Identifier: Apache-2.0
//
// Finds this host's routes and network devices.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_HOST_NETWORK_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_HOST_NETWORK_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "distribute/cluster/connections/host_port.h"

namespace mirrorflow {

// Returns the source address of packets from this host to `peer`, such as `10.0.0.2`. Resolves the
// peer's name, but sends nothing to the peer.
absl::StatusOr<std::string> AddressTowards(const HostPort& peer);

// Returns the network device that sends packets to `peer`, such as `eth0` or `lo`. Resolves the
// peer's name, but sends nothing to the peer.
absl::StatusOr<std::string> NetworkDeviceTowards(const HostPort& peer);

// Returns whether the network device, such as `eth0`, belongs to an RDMA device: InfiniBand, RoCE
// or iWARP. `sysfs`: the directory where the kernel describes devices; tests pass a fake one.
bool HasRdma(absl::string_view network_device, const std::string& sysfs = "/sys");

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_HOST_NETWORK_H_
