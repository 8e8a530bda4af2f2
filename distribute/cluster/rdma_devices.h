// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_RDMA_DEVICES_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_RDMA_DEVICES_H_

#include <string>

#include "absl/strings/string_view.h"

namespace mirrorflow {

// Returns whether the network device, such as `eth0`, belongs to an RDMA device: InfiniBand, RoCE
// or iWARP. `sysfs`: where the kernel describes devices; tests pass another folder.
bool HasRdma(absl::string_view network_device, const std::string& sysfs = "/sys");

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_RDMA_DEVICES_H_
