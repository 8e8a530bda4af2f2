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

// Prepares this process for gRPC. Must be called before any gRPC function. Keeps gRPC from writing
// to standard error unless GRPC_VERBOSITY is set, because call statuses carry the same information,
// and strangers on a port could fill the log. Returns ResourceExhausted, naming the limit, if gRPC
// cannot start its threads, without which it hangs, or cannot open its files and `num_descriptors`
// further descriptors (see EnsureDescriptors). Returns InvalidArgument if GRPC_POLL_STRATEGY would
// make gRPC abort the process.
absl::Status PrepareGrpc(int64_t num_descriptors, int64_t spare_descriptors = kSpareDescriptors);

// Converts a deadline for a gRPC call.
gpr_timespec GrpcDeadline(MonotonicTime deadline);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_GRPC_SUPPORT_H_
