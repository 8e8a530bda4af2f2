// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_MEASURE_LINK_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_MEASURE_LINK_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/core/monotonic_time.h"
#include "framework/runtime/communicator.h"
#include "framework/runtime/topology.h"
#include "framework/workers/worker_group.h"

namespace mirrorflow {

// Measures the costs of messages between domains with all-reduces of two sizes. All workers must
// call it, with the communicators of their ranks. All receive the result of rank 0.
absl::StatusOr<LinkCosts> MeasureLink(absl::Span<const std::unique_ptr<Communicator>> local_ranks,
                                      WorkerGroup& workers, MonotonicTime deadline);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_MEASURE_LINK_H_
