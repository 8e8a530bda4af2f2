// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_PREPARE_GRPC_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_PREPARE_GRPC_H_

#include "absl/status/status.h"

namespace mirrorflow {

// Call before other functions of gRPC. Stops it from writing to standard error, unless
// GRPC_VERBOSITY asks for it: what it would write is in the statuses of calls, and strangers on a
// port could fill the log with it. ResourceExhausted, naming the limit, if it could not start its
// threads, without which it hangs, or open its files and `num_descriptors` more.
// InvalidArgument for an environment in which it would abort the process.
absl::Status PrepareGrpc(int num_descriptors);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_PREPARE_GRPC_H_
