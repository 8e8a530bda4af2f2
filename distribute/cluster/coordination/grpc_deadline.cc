// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/grpc_deadline.h"

#include "absl/time/time.h"

namespace mirrorflow {

gpr_timespec GrpcDeadline(MonotonicTime deadline) {
  if (deadline == MonotonicTime::InfiniteFuture()) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  const absl::Duration left = deadline - MonotonicTime::Now();
  return gpr_time_from_nanos(absl::ToInt64Nanoseconds(left), GPR_TIMESPAN);
}

}  // namespace mirrorflow
