// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_NAME_RESOLUTION_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_NAME_RESOLUTION_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "distribute/cluster/connections/host_port.h"
#include "framework/core/monotonic_time.h"

namespace mirrorflow {

// Blocks until the name of `address` has an IP address: that of a pod, for instance, reaches the
// name service some time after the pod starts, also for the pod itself. Logs that it
// waits. DeadlineExceeded, with the name service's reason, after `deadline`.
absl::Status WaitUntilResolved(const HostPort& address, MonotonicTime deadline);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_NAME_RESOLUTION_H_
