// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_GRPC_LOG_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_GRPC_LOG_H_

namespace mirrorflow {

// Stops gRPC from writing to standard error, unless GRPC_VERBOSITY asks for it. What it would write
// is in the statuses of calls, and strangers on a port could fill the log with it.
void SilenceGrpcLog();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_GRPC_LOG_H_
