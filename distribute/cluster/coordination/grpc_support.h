// SPDX-License-Identifier: Apache-2.0
//
// Initialises gRPC for this process, and converts deadlines to gRPC's type.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_GRPC_SUPPORT_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_GRPC_SUPPORT_H_

#include <grpc/support/time.h>

#include <cstdint>

#include "absl/status/status.h"
#include "framework/core/descriptors.h"
#include "framework/core/monotonic_time.h"

namespace mirrorflow {

// Call before other functions of gRPC. Stops it from writing to standard error, unless
// GRPC_VERBOSITY asks for it: what it would write is in the statuses of calls, and strangers on a
// port could fill the log with it. ResourceExhausted, naming the limit, if it could not start its
// threads, without which it hangs, or open its files and `num_descriptors` more; the latter as
// EnsureDescriptors does. InvalidArgument for an environment in which it would abort the process.
absl::Status PrepareGrpc(int64_t num_descriptors, int64_t spare_descriptors = kSpareDescriptors);

// Converts a deadline for a gRPC call.
gpr_timespec GrpcDeadline(MonotonicTime deadline);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_GRPC_SUPPORT_H_
