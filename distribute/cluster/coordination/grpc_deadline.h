// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_GRPC_DEADLINE_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_GRPC_DEADLINE_H_

#include <grpc/support/time.h>

#include "framework/core/monotonic_time.h"

namespace mirrorflow {

// Converts a deadline for a gRPC call.
gpr_timespec GrpcDeadline(MonotonicTime deadline);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_GRPC_DEADLINE_H_
